/**
 * A small client that behaves like deno-redis, for machines that cannot load it: one command or pipeline
 * at a time, no time-outs, commands sent again after a reconnect, `-` before the text of errors,
 * subscriptions that reconnect automatically. A connection that is closed while it reconnects opens again.
 *
 * @module
 */
import type { DenoRedisConnection } from "../../redis/clients/deno_redis.ts";
import { connectResp, type RespConnection } from "../servers/resp.ts";
import { pause } from "../servers/wait.ts";

/** How often the client tries to connect, and how often it then repeats a command. */
const MAX_RETRIES = 10;
const RETRY_EVERY_MS = 20;

/** Options of {@linkcode connectLike}. */
export interface LikeOptions {
  /** Whether it reports events of the connection, as deno-redis does since 0.37. */
  readonly hasEvents?: boolean;
}

/** A command or pipeline, and what settles it. */
interface Turn {
  readonly commands: string[][];
  resolve(replies: unknown[]): void;
  reject(error: unknown): void;
}

/** Connects to the server at the URL. */
export async function connectLike(
  url: string,
  { hasEvents = true }: LikeOptions = {},
): Promise<DenoRedisConnection> {
  const connection = new LikeConnection(url);
  await connection.connect();
  return {
    pipeline() {
      const commands: string[][] = [];
      return {
        sendCommand: (command, args) => Promise.resolve(commands.push([command, ...args])),
        flush: () => connection.send(commands),
      };
    },
    async subscribe(channel) {
      const [reply] = await connection.send([["SUBSCRIBE", channel]]);
      if (reply instanceof Error) throw reply;
      return { receive: () => connection.receive(channel) };
    },
    close: () => connection.close(),
    ...hasEvents && {
      addEventListener: (event, listener) =>
        connection.events.addEventListener(event, (told) => listener(told as CustomEvent)),
    },
  };
}

/** The connection of deno-redis: `RedisConnection` in its `connection.ts`. */
class LikeConnection {
  readonly events = new EventTarget();
  readonly #url: string;
  #resp: RespConnection | null = null;
  #isClosed = false;
  #isConnected = false;
  #queue: Turn[] = [];

  constructor(url: string) {
    this.#url = url;
  }

  async connect(): Promise<void> {
    for (let tries = 1;; tries++) {
      try {
        this.#resp = await connectResp(this.#url);
        break;
      } catch (error) {
        this.#tell(tries === MAX_RETRIES ? "error" : "reconnecting", { error });
        if (tries === MAX_RETRIES) throw error;
        await pause(RETRY_EVERY_MS);
      }
    }
    this.#isClosed = false;
    this.#isConnected = true;
    this.#tell("connect");
    this.#tell("ready");
  }

  close(willReconnect = false): void {
    const wasClosed = this.#isClosed;
    this.#isClosed = true;
    this.#isConnected = false;
    this.#resp?.[Symbol.dispose]();
    if (!wasClosed) this.#tell("close");
    if (!wasClosed && !willReconnect) this.#tell("end");
  }

  send(commands: string[][]): Promise<unknown[]> {
    const { promise, resolve, reject } = Promise.withResolvers<unknown[]>();
    if (this.#queue.push({ commands, resolve, reject }) === 1) this.#process();
    return promise;
  }

  async *receive(channel: string): AsyncGenerator<{ message: string }> {
    while (this.#isConnected) {
      try {
        const [kind, , message] = await this.#resp!.next() as string[];
        if (kind === "message") yield { message: message! };
      } catch {
        if (this.#isClosed) return;
        // Subscribes again whatever happened meanwhile, so `close()` may come too early.
        await this.send([["SUBSCRIBE", channel]]);
      }
    }
  }

  async #process(): Promise<void> {
    for (let turn; (turn = this.#queue[0]) !== undefined; this.#queue.shift()) {
      try {
        turn.resolve(await this.#execute(turn));
      } catch (error) {
        this.#tell("error", { error });
        turn.reject(error);
      }
    }
  }

  async #execute({ commands }: Turn): Promise<unknown[]> {
    for (let retries = 0;; retries++) {
      try {
        return (await this.#resp!.pipeline(commands)).map(asReply);
      } catch (error) {
        if (retries === 0 && this.#isClosed) throw error; // closed by the user
        await this.#reconnect(retries, error);
      }
    }
  }

  /** Connects again whatever `close()` said meanwhile, as deno-redis does. */
  async #reconnect(retries: number, error: unknown): Promise<void> {
    for (; retries < MAX_RETRIES; retries++) {
      this.close(true);
      this.#tell("reconnecting");
      try {
        return await this.connect();
      } catch (error) {
        this.#tell("error", { error });
        await pause(RETRY_EVERY_MS);
      }
    }
    throw error;
  }

  #tell(type: string, detail?: unknown): void {
    this.events.dispatchEvent(new CustomEvent(type, { detail }));
  }
}

function asReply(reply: unknown): unknown {
  return reply instanceof Error ? new Error(`-${reply.message}`) : reply;
}
