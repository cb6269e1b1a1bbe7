/**
 * Constructors refuse unknown options, and no call ignores a mode that it does not have.
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { hintFor } from "../../core/contract/option_hints.ts";
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

Deno.test("hintFor() takes a name for another one if a single letter is wrong, and it is not too short", () => {
  const names = ["dir", "mode", "label"];
  const meant: [unknown: string, name: string][] = [
    ["modes", "mode"],
    ["labe", "label"],
    ["labol", "label"],
    ["albel", "label"],
  ];
  for (const [unknown, name] of meant) {
    assertEquals(hintFor(unknown, names), `did you mean '${name}'?`);
  }
  for (const unknown of ["dirs", "lbxel", "xabol"]) {
    assertEquals(hintFor(unknown, names), "it has dir, mode, label");
  }
});

class SharedMode {
  get mode() {
    return "shared";
  }
}

/** The mode "shared", as an object can have it. */
const SHARED: object[] = [
  { mode: "shared" },
  new SharedMode(),
  Object.create({ mode: "shared" }),
  Object.defineProperty({}, "mode", { value: "shared" }),
  Object.freeze(Object.assign(Object.create(null), { mode: "shared" })),
];

Deno.test('acquire(), tryAcquire() and request() never ignore the mode "shared", wherever the options have it from', async () => {
  await using memory = new MemoryLock();
  await using file = new FileLock({ dir: "/nowhere" });
  await using redis = new RedisLock(CLIENT);
  for (const options of SHARED) {
    const granted = [memory.acquire("n", options), memory.tryAcquire("n", options)];
    for (const lease of await Promise.all(granted)) {
      assertEquals(lease?.mode, "shared");
      await lease!.release();
    }
    assertEquals(await memory.request("n", options, ({ mode }) => mode), "shared");
    const refused = [
      ...[file.acquire("n", options), file.tryAcquire("n", options)],
      file.request("n", options, () => {}),
    ];
    for (const call of refused) {
      const error = await assertRejects(() => call, DOMException);
      assertEquals(error.name, "NotSupportedError");
    }
    await assertRejects(() => redis.attach("n", "job-7", options), TypeError, "attach a shared");
  }
});

Deno.test("acquire() takes no other mode either: a TypeError", async () => {
  await using locks = new MemoryLock();
  const text = 'it must be "exclusive" or "shared"';
  for (const mode of ["both", "", "Shared", 5, null]) {
    await assertRejects(() => locks.acquire("n", { mode } as object), TypeError, text);
  }
});

Deno.test("query() and constructors have no such option as 'mode', whatever its value: a TypeError", async () => {
  await using locks = new MemoryLock();
  for (const mode of ["exclusive", "shared", "cluster", 5]) {
    const options = { mode } as object;
    await assertRejects(() => locks.query("n", options), TypeError, "query() has no such option");
    for (const [name, create] of Object.entries(CONSTRUCTORS)) {
      assertThrows(() => create(options), TypeError, `new ${name}() has no such option`);
    }
  }
});
