/**
 * Hands scripts to the client, within the window of unanswered commands. The scripts as typed commands
 * are in `commands.ts`.
 *
 * @module
 */
import type { Clock } from "../../core/time/clock.ts";
import type { RedisClient } from "../client.ts";
import { CommandWindow } from "./command_window.ts";
import { hideCommand, isNoScript, refusalOf, UnusableClientError } from "./failures.ts";
import type { LockKeys } from "./keys.ts";
import type { Script } from "./scripts.ts";

/** Options of {@linkcode ScriptRunner}. */
export interface ScriptRunnerOptions {
  readonly clock: Clock;
  /** How long in ms a command may go unanswered before a client with `reset` is reset. */
  readonly commandTimeoutMs: number;
  /** How long in ms an ask waits for its turn while nothing is answered. */
  readonly unavailableAfterMs: number;
}

/** A script that waits for its turn. */
interface WaitingScript {
  args: string[];
  readonly reply: Promise<unknown>;
}

/** Runs scripts on one client. Each run is one command, two after a NOSCRIPT. */
export class ScriptRunner {
  /** A caller of {@linkcode ScriptRunner.run} takes its place here. */
  readonly window: CommandWindow;
  readonly #client: RedisClient;
  readonly #options: ScriptRunnerOptions;
  /** The urgent scripts that wait for their turn: one per script and owner value. */
  readonly #waiting = new Map<string, WaitingScript>();

  constructor(client: RedisClient, options: ScriptRunnerOptions) {
    this.#client = client;
    this.#options = options;
    this.window = new CommandWindow(options.clock, options.unavailableAfterMs);
  }

  /**
   * Hands a script to the client now. The caller has taken a place in the window.
   *
   * @param caller Whether it still wants the reply. If not, a script that the server does not know is
   * not sent again with its source.
   */
  run(
    script: Script,
    { lock, queue, waiters, token }: LockKeys,
    args: string[],
    caller: { readonly isWanted: boolean } | null = null,
  ): Promise<unknown> {
    const all = [script.sha1, "4", lock, queue, waiters, token, ...args];
    return this.#send("EVALSHA", all, lock).then(this.#onReply, (error) => {
      if (!isNoScript(error) || caller?.isWanted === false) return this.#onFailure(error);
      return this.#send("EVAL", all.with(0, script.source), lock)
        .then(this.#onReply, this.#onFailure);
    });
  }

  /**
   * Runs a script ahead of all asks. If the same script for the same owner value still waits for its
   * turn, only the later one is run, as the answer to both: retries during an outage do not add up.
   */
  runUrgent(script: Script, keys: LockKeys, args: string[]): Promise<unknown> {
    if (this.window.take()) return this.run(script, keys, args);
    const id = `${script.sha1} ${args[0]} ${keys.lock}`;
    const earlier = this.#waiting.get(id);
    if (earlier !== undefined) {
      earlier.args = args;
      return earlier.reply;
    }
    const reply = this.window.urgentTurn().then(() => {
      this.#waiting.delete(id);
      return this.run(script, keys, waiting.args);
    });
    const waiting: WaitingScript = { args, reply };
    this.#waiting.set(id, waiting);
    return reply;
  }

  /** Runs a command that is no script, ahead of all asks. */
  async runPlain(command: string, args: string[]): Promise<unknown> {
    if (!this.window.take()) await this.window.urgentTurn();
    return await this.#send(command, args, "").then(this.#onReply, this.#onFailure);
  }

  readonly #onReply = (reply: unknown): unknown => {
    this.window.free(true);
    return reply;
  };

  readonly #onFailure = (error: unknown): never => {
    this.window.free(refusalOf(error) !== null);
    hideCommand(error);
    const { unusable } = this.#client;
    throw unusable === undefined ? error : new UnusableClientError(unusable, { cause: error });
  };

  /** Sends a command. Without a reply in time, a client that would wait forever is reset. */
  #send(command: string, args: string[], key: string): Promise<unknown> {
    let reply: Promise<unknown>;
    try {
      reply = this.#client.send(command, args, key);
    } catch (error) {
      return Promise.reject(error); // the place in the window must be freed then, too
    }
    if (this.#client.reset === undefined) return reply;
    const { clock, commandTimeoutMs } = this.#options;
    const cancel = clock.schedule(() => this.#client.reset?.(), commandTimeoutMs);
    return reply.finally(cancel);
  }
}
