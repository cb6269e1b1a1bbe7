/**
 * A Redis client whose requests, replies and messages can be held back one by one, or lost.
 *
 * @module
 */
import { ASK, LEAVE, QUERY, RENEW, STEAL } from "../../redis/protocol/scripts.ts";
import type { RedisClient } from "../../redis/mod.ts";

const SCRIPTS = { ask: ASK, leave: LEAVE, query: QUERY, renew: RENEW, steal: STEAL };

/** A script that was sent. */
export interface SentScript {
  readonly script: keyof typeof SCRIPTS;
  /** What followed the keys. */
  readonly args: readonly string[];
  /** The whole command, to be sent again by hand. */
  readonly copy: readonly string[];
}

/** Called before a script travels on; what it returns is waited for, what it throws is the outcome. */
export type ScriptHook = (sent: SentScript) => Promise<void> | void;

/** The hooks, to be set at any time. */
export interface Gates {
  onRequest?: ScriptHook | undefined;
  onReply?: ScriptHook | undefined;
  onMessage?: ((text: string) => Promise<void> | void) | undefined;
  /** All scripts sent so far. */
  readonly sent: SentScript[];
  /** Added to the client's epoch. */
  epoch: number;
  /** Says that messages may have been lost. */
  gap(): void;
}

/** Something that comes by and is held back until told to go on. */
export class Gate {
  readonly #arrived = Promise.withResolvers<void>();
  readonly #open = Promise.withResolvers<void>();
  #isUsed = false;

  /** Resolves when the first one is held back. */
  get arrived(): Promise<void> {
    return this.#arrived.promise;
  }

  /** Lets it go on. */
  open(): void {
    this.#open.resolve();
  }

  /** A hook that holds back the first of these scripts and lets pass all others. */
  first(script: SentScript["script"]): ScriptHook {
    return (sent) => sent.script === script ? this.pass() : undefined;
  }

  /** Holds back the first that comes. */
  pass(): Promise<void> | void {
    if (this.#isUsed) return;
    this.#isUsed = true;
    this.#arrived.resolve();
    return this.#open.promise;
  }
}

/** Puts gates around a client. */
export function gated(client: RedisClient): { client: RedisClient; gates: Gates } {
  const gates: Gates = { sent: [], epoch: 0, gap: () => {} };
  return {
    gates,
    client: {
      async send(command, args, key) {
        const sent = read(command, args);
        if (sent === null) return await client.send(command, args, key);
        gates.sent.push(sent);
        await gates.onRequest?.(sent);
        const reply = await client.send(command, args, key);
        await gates.onReply?.(sent);
        return reply;
      },
      subscribe(channel, onMessage, onGap) {
        gates.gap = onGap;
        return client.subscribe!(channel, async (text) => {
          await gates.onMessage?.(text);
          onMessage(text);
        }, onGap);
      },
      get epoch() {
        return client.epoch + gates.epoch;
      },
      cluster: client.cluster,
    },
  };
}

function read(command: string, args: readonly string[]): SentScript | null {
  for (const script of Object.keys(SCRIPTS) as (keyof typeof SCRIPTS)[]) {
    const { sha1, source } = SCRIPTS[script];
    if (args[0] !== sha1 && args[0] !== source) continue;
    return { script, args: args.slice(6), copy: [command, ...args] };
  }
  return null;
}
