/**
 * Constructors refuse unknown options.
 */
import { assert, assertThrows } from "@std/assert";
import { FileLock } from "../../file/mod.ts";
import { MemoryLock } from "../../mod.ts";
import { RedisLock } from "../../redis/mod.ts";
import { ZooKeeperLock } from "../../zookeeper/mod.ts";

const CLIENT = { send: () => Promise.reject(new Error("unused")), epoch: 0, cluster: false };

const CONSTRUCTORS: Record<string, (options: object) => unknown> = {
  MemoryLock: (options) => new MemoryLock(options),
  FileLock: (options) => new FileLock(options),
  RedisLock: (options) => new RedisLock(CLIENT, options),
  ZooKeeperLock: (options) => new ZooKeeperLock("127.0.0.1", options),
};

const UNKNOWN: [options: object, names: string][] = [
  [{ ttl: 5 }, "'ttlMs'"],
  [{ lockTimeout: 5 }, "'ttlMs'"],
  [{ retryCount: 5 }, "'waitMs'"],
  [{ acquireTimeout: 5 }, "'waitMs'"],
  [{ driftFactor: 0.01 }, "drift"],
  [{ refreshInterval: 5 }, "'autoRenew'"],
  [{ waitMs: 5 }, "label"],
  [{ Label: "x" }, "label"],
  [{ toString: 1 }, "label"],
];

for (const [name, create] of Object.entries(CONSTRUCTORS)) {
  Deno.test(`${name} throws a TypeError for an unknown option at construction, which names ours`, () => {
    for (const [options, ours] of UNKNOWN) {
      const error = assertThrows(() => create(options), TypeError);
      const [unknown] = Object.keys(options);
      assert(error.message.includes(`'${unknown}'`), error.message);
      assert(error.message.includes(`new ${name}()`), error.message);
      assert(error.message.includes(ours), error.message);
    }
    create({ ttl: undefined, label: undefined, disposeTimeoutMs: undefined, onWarning: undefined });
    for (const bad of [null, 5, "label"]) {
      assertThrows(() => create(bad as unknown as object), TypeError);
    }
  });
}

Deno.test("an unknown option gets the name that was probably meant", () => {
  const meant: [unknown: string, name: string][] = [
    ["ttlMS", "ttlMs"],
    ["keyPrefx", "keyPrefix"],
    ["keyPerfix", "keyPrefix"],
    ["commandTimeout", "commandTimeoutMs"],
    ["handof", "handoff"],
    ["lable", "label"],
  ];
  for (const [unknown, name] of meant) {
    const { message } = assertThrows(() => new RedisLock(CLIENT, { [unknown]: 5 }), TypeError);
    assert(message.endsWith(`did you mean '${name}'?`), message);
  }
});
