/**
 * A Redis client whose requests, replies and messages can be held back one by one, or lost.
 *
 * @module
 */
import { ASK, LEAVE, QUERY, RENEW, STEAL } from "../../redis/protocol/scripts.ts";
import { isLate } from "../../redis/protocol/wire.ts";
import type { RedisClient } from "../../redis/mod.ts";

const SCRIPTS = { ask: ASK, leave: LEAVE, query: QUERY, renew: RENEW, steal: STEAL };

/** A script that the lock has sent. */
export interface SentScript {
  readonly script: keyof typeof SCRIPTS;
  /** The arguments behind the keys. */
  readonly args: readonly string[];
  /** The whole command, so that a test can send it again. */
  readonly copy: readonly string[];
}

/**
 * Called before a request or a reply is passed on, which waits for the promise that the hook returns. If
 * the hook throws, `send()` rejects.
 */
export type ScriptHook = (sent: SentScript) => Promise<void> | void;

/** The hooks of a gated client. A test may set them at any time. */
export interface Gates {
  onRequest?: ScriptHook | undefined;
  onReply?: ScriptHook | undefined;
  onMessage?: ((text: string) => Promise<void> | void) | undefined;
  /** All scripts sent so far. */
  readonly sent: SentScript[];
  /** How many asks reached the server too late, so that the lock sends each once more: on a stalled machine. */
  lateAsks: number;
  /** Added to the client's epoch. */
  epoch: number;
  /** Reports to the lock that messages may have been lost. */
  gap(): void;
}

/** Holds back the first request, reply or message that reaches it, until a test opens it. */
export class Gate {
  readonly #arrived = Promise.withResolvers<void>();
  readonly #open = Promise.withResolvers<void>();
  #isUsed = false;

  /** Resolves when something is held back. */
  get arrived(): Promise<void> {
    return this.#arrived.promise;
  }

  /** Lets it pass. */
  open(): void {
    this.#open.resolve();
  }

  /** A hook that holds back the first script of a kind, and lets all others pass. */
  first(script: SentScript["script"]): ScriptHook {
    return (sent) => sent.script === script ? this.pass() : undefined;
  }

  /** Holds back its first caller: returns a promise to wait for. Lets all later ones pass. */
  pass(): Promise<void> | void {
    if (this.#isUsed) return;
    this.#isUsed = true;
    this.#arrived.resolve();
    return this.#open.promise;
  }
}

/** Wraps a client, so that hooks see and delay its traffic. */
export function gated(client: RedisClient): { client: RedisClient; gates: Gates } {
  const gates: Gates = { sent: [], lateAsks: 0, epoch: 0, gap: () => {} };
  return {
    gates,
    client: {
      async send(command, args, key) {
        const sent = readScript(command, args);
        if (sent === null) return await client.send(command, args, key);
        gates.sent.push(sent);
        await gates.onRequest?.(sent);
        const reply = await client.send(command, args, key);
        if (sent.script === "ask" && isLate(reply)) gates.lateAsks++;
        await gates.onReply?.(sent);
        return reply;
      },
      subscribe(channel, onMessage, onSubscribed, signal) {
        gates.gap = onSubscribed;
        const onText = async (text: string) => {
          await gates.onMessage?.(text);
          onMessage(text);
        };
        return client.subscribe!(channel, onText, onSubscribed, signal);
      },
      get epoch() {
        return client.epoch + gates.epoch;
      },
      cluster: client.cluster,
    },
  };
}

/** Reads a command; `null` if it is not one of the scripts. */
export function readScript(command: string, args: readonly string[]): SentScript | null {
  for (const script of Object.keys(SCRIPTS) as (keyof typeof SCRIPTS)[]) {
    const { sha1, source } = SCRIPTS[script];
    if (args[0] !== sha1 && args[0] !== source) continue;
    return { script, args: args.slice(6), copy: [command, ...args] };
  }
  return null;
}
