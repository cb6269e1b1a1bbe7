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

/** The clients that talk to a cluster or to sentinels, too. */
export type TopologyClientName =
  | "node-redis-cluster"
  | "ioredis-cluster"
  | "node-redis-sentinel"
  | "ioredis-sentinel";

/** Rights that a client package needs besides those of the locks, in lower case. */
export interface ClientRights {
  /** At the nodes of a cluster, or at the sentinels, whose users are their own. */
  readonly required: readonly string[];
  /** Rights without which locks work. */
  readonly optional: readonly string[];
  /** The rule for channels, which an optional right needs. */
  readonly channels: readonly string[];
}

/** Found by `ACL LOG`; `tests/redis/client_rights_test.ts` shows that each is used, and that they are all. */
export const CLIENT_RIGHTS: Readonly<Record<TopologyClientName, ClientRights>> = {
  "node-redis-cluster": {
    required: ["asking", "cluster|slots"],
    optional: [],
    channels: [],
  },
  "ioredis-cluster": {
    required: ["asking", "cluster|info", "cluster|slots"],
    optional: [],
    channels: [],
  },
  "node-redis-sentinel": {
    required: ["sentinel|master", "sentinel|replicas", "sentinel|sentinels"],
    optional: ["psubscribe"],
    channels: ["allchannels"],
  },
  "ioredis-sentinel": {
    required: ["sentinel|get-master-addr-by-name", "sentinel|sentinels"],
    optional: ["subscribe"],
    channels: ["&+switch-master"],
  },
};

/** The rules of `ACL SETUSER` for these rights, without those that are left out. */
export function clientRules(client: TopologyClientName, without?: string): string[] {
  const { required, optional, channels } = CLIENT_RIGHTS[client];
  const rights = [...optional, ...required].filter((right) => right !== without);
  return [...channels, ...rights.map((right) => `+${right}`)];
}
