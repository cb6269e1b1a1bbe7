/**
 * A small client that behaves like deno-redis, for machines that cannot load it: one command or pipeline
 * at a time, no time-outs, commands sent again after a reconnect, `-` before the text of errors,
 * subscriptions that reconnect automatically.
 *
 * @module
 */
import type { DenoRedisConnection, DenoRedisSubscription } from "../../redis/clients/deno_redis.ts";
import { connectResp, type RespConnection } from "../servers/resp.ts";
import { pause } from "../servers/wait.ts";

/** How often a broken connection is made again before a command fails. */
const MAX_RETRIES = 10;
const RETRY_EVERY_MS = 20;

/** Connects to the server at the URL. */
export async function connectLike(url: string): Promise<DenoRedisConnection> {
  const listeners = { reconnecting: [] as (() => void)[], ready: [] as (() => void)[] };
  const tell = (event: keyof typeof listeners) =>
    listeners[event].forEach((listener) => listener());
  let connection: RespConnection = await connectResp(url);
  let isClosed = false;
  let last: Promise<unknown> = Promise.resolve();

  const throwIfClosed = () => {
    if (isClosed) throw new Deno.errors.BadResource("Bad resource ID");
  };

  const reconnect = async () => {
    tell("reconnecting");
    for (let tries = 0;; tries++) {
      throwIfClosed();
      try {
        connection = await connectResp(url);
        break;
      } catch (error) {
        if (tries === MAX_RETRIES) throw error;
        await pause(RETRY_EVERY_MS);
      }
    }
    if (isClosed) connection[Symbol.dispose]();
    else tell("ready");
  };

  const exchange = async (commands: string[][]): Promise<unknown[]> => {
    for (let retries = 0;; retries++) {
      throwIfClosed();
      try {
        const replies = await connection.pipeline(commands);
        return replies.map((reply) =>
          reply instanceof Error ? new Error(`-${reply.message}`) : reply
        );
      } catch (error) {
        if (isClosed || retries === MAX_RETRIES) throw error;
        await reconnect();
      }
    }
  };

  async function* receive(channel: string): AsyncGenerator<{ message: string }> {
    while (!isClosed) {
      try {
        const [kind, , message] = await connection.next() as string[];
        if (kind === "message") yield { message: message! };
      } catch {
        if (isClosed) return;
        await reconnect();
        await connection.command("SUBSCRIBE", channel);
      }
    }
  }

  return {
    pipeline() {
      const commands: string[][] = [];
      return {
        sendCommand: (command, args) => Promise.resolve(commands.push([command, ...args])),
        flush() {
          const turn = last.then(() => exchange(commands));
          last = turn.catch(() => {});
          return turn;
        },
      };
    },
    async subscribe(channel): Promise<DenoRedisSubscription> {
      const [reply] = await exchange([["SUBSCRIBE", channel]]);
      if (reply instanceof Error) throw reply;
      return { receive: () => receive(channel) };
    },
    close() {
      isClosed = true;
      connection[Symbol.dispose]();
    },
    addEventListener: (event, listener) => void listeners[event].push(listener),
  };
}
