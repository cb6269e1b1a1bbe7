/**
 * What the user is told once.
 *
 * @module
 */
import type { RedisCommands } from "./protocol/commands.ts";
import { INBOX_CHANNEL_PREFIX } from "./protocol/keys.ts";
import { evictionWarning } from "./preflight.ts";

/** The warnings of one instance. */
export class Warnings {
  readonly #commands: RedisCommands;
  readonly #onWarning: (message: string) => void;
  readonly #said = new Set<string>();
  #isMemoryChecked = false;

  constructor(commands: RedisCommands, onWarning: (message: string) => void) {
    this.#commands = commands;
    this.#onWarning = onWarning;
  }

  /** Says something, unless it was said before. */
  say(message: string): void {
    if (this.#said.has(message)) return;
    this.#said.add(message);
    this.#onWarning(message);
  }

  /** Whoever got the lock by a release could not be told. */
  untold(): void {
    this.say(`Redis refuses to publish to "${INBOX_CHANNEL_PREFIX}*", so waiters learn by polling`);
  }

  /** Looks once, behind the first call that the server answers, whether it may evict locks. */
  checkMemoryAfter(call: Promise<unknown>): void {
    if (!this.#isMemoryChecked) call.then(() => this.#checkMemory(), () => {});
  }

  #checkMemory(): void {
    if (this.#isMemoryChecked) return;
    this.#isMemoryChecked = true;
    this.#commands.memoryInfo().then((info) => {
      const warning = evictionWarning(info);
      if (warning !== null) this.say(warning);
    }).catch(() => {}); // INFO may be forbidden; a warning is not worth an error
  }
}
