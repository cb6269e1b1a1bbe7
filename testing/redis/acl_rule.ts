/**
 * The ACL rule that a user of locks needs, generated from the scripts.
 *
 * @module
 */
import type { Script } from "../../redis/protocol/scripts.ts";
import { INBOX_CHANNEL_PREFIX } from "../../redis/protocol/keys.ts";

/** Commands that the library sends besides those in the scripts. */
const SENT = ["eval", "evalsha", "info", "subscribe"];
/** Rights without which locks work: waiters poll, or a warning is missing. */
const OPTIONAL: ReadonlySet<string> = new Set(["info", "publish", "pubsub|numsub", "subscribe"]);

const CALL = /redis\.p?call\(\s*'([A-Z]+)'(?:,\s*'([A-Z]+)')?/g;

/** The commands that a script calls, in lower case. */
export function commandsIn({ source }: Script): string[] {
  const calls = [...source.matchAll(CALL)];
  const names = calls.map(([, command, part]) => part ? `${command}|${part}` : command!);
  return [...new Set(names.map((name) => name.toLowerCase()))].sort();
}

/** The commands that a user must be allowed, in lower case. */
export function commandRights(scripts: readonly Script[]): string[] {
  return [...new Set([...SENT, ...scripts.flatMap(commandsIn)])].sort();
}

/** Whether a call fails without this right. */
export function isRequired(command: string): boolean {
  return !OPTIONAL.has(command);
}

/** The rules of `ACL SETUSER` behind the name and the password of a user. */
export function aclRules(commands: readonly string[], keyPrefix: string): string[] {
  const keys = [`~${keyPrefix}*`, "~holdfast:*"];
  // In Redis 6.2 a new user may use all channels, and patterns are refused until that is taken back.
  const channels = ["resetchannels", `&${INBOX_CHANNEL_PREFIX}*`];
  return [...keys, ...channels, ...commands.map((command) => `+${command}`)];
}
