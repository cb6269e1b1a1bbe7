/**
 * Other libraries on the same path: which of them exclude each other, and keep the order of the queue.
 */
import { assert, assertEquals } from "@std/assert";
import { type Lease, ZooKeeperLock } from "../../zookeeper/mod.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { say } from "../../testing/processes/figures.ts";
import { startZooKeeper, type ZooKeeperServer } from "../../testing/servers/zookeeper.ts";
import { CONDITION_BOUND_MS, LONG_BOUND_MS } from "../../testing/time.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { observing } from "../../testing/zookeeper/observer.ts";
import { newRoot } from "../../testing/zookeeper/waiter.ts";
import { type Driver, type Kind, type Place, startDriver } from "../../testing/interop/driver.ts";
import { type Program, programs } from "../../testing/interop/peer_programs.ts";
import { type Findings, readRecord } from "../../testing/interop/record.ts";

/** How many critical sections each kind enters at least; the soak runs the full figure. */
const SECTIONS = Deno.env.get("HOLDFAST_SOAK") ? 500 : 15;
const WAITERS = 3;
const found = await programs();

let server: ZooKeeperServer;

Deno.test.beforeAll(async () => {
  server = await startZooKeeper();
});
Deno.test.afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

/** Lets all kinds contend until `isEnough` accepts the record; resolves with the whole record. */
async function contend(
  kinds: readonly Kind[],
  place: Place,
  isEnough: (findings: Findings) => boolean,
): Promise<Findings> {
  const file = await Deno.makeTempFile();
  const read = async () => readRecord(await Deno.readTextFile(file));
  const drivers: Driver[] = [];
  try {
    for (const kind of kinds) {
      drivers.push(
        await within(`${kind} is ready`, startDriver(kind, place, found), CONDITION_BOUND_MS),
      );
    }
    for (const driver of drivers) await driver.send(`contend ${WAITERS} ${file}`);
    await waitUntil("the record is long enough", async () => isEnough(await read()), LONG_BOUND_MS);
    // Ours ends last: it deletes the lock's znode when that is unused, which kazoo does not expect.
    for (const driver of drivers.toReversed()) {
      assertEquals(
        await within(`${driver.kind} ends`, driver.end(), CONDITION_BOUND_MS),
        0,
        driver.kind,
      );
    }
    return await read();
  } finally {
    for (const driver of drivers) await driver[Symbol.asyncDispose]();
    await Deno.remove(file);
  }
}

/** Registers a test; it is skipped if a library of these kinds is missing. */
function fleet(name: string, kinds: readonly Kind[], test: (place: Place) => Promise<void>): void {
  const needed: Program[] = [
    ...kinds.includes("curator") ? [found.curator] : [],
    ...kinds.some((kind) => kind.startsWith("kazoo")) ? [found.kazoo] : [],
  ];
  const missing = needed.filter(({ command }) => !command).map(({ line }) => line);
  const skip = missing.length === 0 ? "" : ` [skipped: ${missing.join("; ")}]`;
  Deno.test({
    name: name + skip,
    ignore: missing.length > 0,
    async fn() {
      await test({ connectString: server.connectString, path: `${newRoot()}/orders` });
    },
  });
}

function excludesEachOther(name: string, kinds: readonly Kind[]): void {
  fleet(
    `${name} exclude each other, and serve waiters first in, first out`,
    kinds,
    async (place) => {
      const { sections, overlaps, inversions, handoffs } = await contend(
        kinds,
        place,
        ({ sections }) => kinds.every((kind) => (sections.get(kind) ?? 0) >= SECTIONS),
      );
      const list = (counts: ReadonlyMap<string, number>) =>
        [...counts].map(([what, count]) => `${what} ${count}`).join(", ");
      const total = `${overlaps} overlaps, ${inversions} inversions`;
      say(`${name}: ${list(sections)}; ${total}; handoffs ${list(handoffs)}`);
      assertEquals([overlaps, inversions], [0, 0]);
      for (const kind of kinds) {
        const given = [...handoffs.keys()].some((handoff) => handoff.startsWith(`${kind}→`));
        const taken = [...handoffs.keys()].some((handoff) => handoff.endsWith(`→${kind}`));
        assert(
          given && taken,
          `${kind} should take the lock from another kind, and give it to one`,
        );
      }
      await observing(place.connectString, async ({ children }) => {
        assertEquals(await children(place.path), []);
      });
    },
  );
}

/**
 * Registers a test of a combination that the documentation warns of. It also proves that a record
 * shows overlaps.
 */
function doNotExcludeEachOther(name: string, kinds: readonly Kind[]): void {
  fleet(`${name} do not exclude each other`, kinds, async (place) => {
    const { overlaps } = await contend(kinds, place, ({ overlaps }) => overlaps > 0);
    assert(overlaps > 0);
  });
}

/** The sessions that watch each path. */
async function watchers(): Promise<Map<string, string[]>> {
  const found = new Map<string, string[]>();
  let sessions: string[] = [];
  for (const line of (await server.fourLetterWord("wchp")).split("\n")) {
    if (line.startsWith("/")) found.set(line, sessions = []);
    else if (line.startsWith("\t")) sessions.push(line.trim());
  }
  return found;
}

/** Four shared holders leave out of order: one that the contender behind them watches, and others. */
const LEAVING = [2, 3, 0, 1];

/** Registers a test: the contender sees each of them leave that it must, and enters after the last one. */
function waitsForTheLastReader(kind: Kind): void {
  const title = `A waiter of kind ${kind} waits until all shared holders have left, in any order`;
  fleet(title, [kind], async (place) => {
    const file = await Deno.makeTempFile();
    await using stack = new AsyncDisposableStack();
    stack.defer(() => Deno.remove(file));
    const slash = place.path.lastIndexOf("/");
    const [rootPath, name] = [place.path.slice(0, slash), place.path.slice(slash + 1)];
    const leases: Lease[] = [];
    for (let i = 0; i < LEAVING.length; i++) {
      const locks = stack.use(new ZooKeeperLock(place.connectString, { rootPath }));
      leases.push(await locks.acquire(name, { mode: "shared" }));
    }
    await observing(place.connectString, async ({ children }) => {
      const held = await children(place.path);
      assertEquals(held.length, LEAVING.length);
      const ours = new Set([...(await watchers()).values()].flat());
      const driver = await within(
        `${kind} is ready`,
        startDriver(kind, place, found),
        CONDITION_BOUND_MS,
      );
      stack.use(driver);
      await driver.send(`contend 1 ${file}`);
      const left = new Set<number>();
      for (const leaving of LEAVING) {
        const last = held.findLast((_, i) => !left.has(i))!;
        await waitUntil(`${kind} watches the last holder`, async () => {
          const sessions = (await watchers()).get(`${place.path}/${last}`) ?? [];
          return sessions.some((session) => !ours.has(session));
        }, CONDITION_BOUND_MS);
        assertEquals(await Deno.readTextFile(file), "");
        left.add(leaving);
        assert(await leases[leaving]!.release());
      }
      await waitUntil(`${kind} holds the lock`, async () => {
        return (await Deno.readTextFile(file)).startsWith(`enter ${kind} `);
      }, CONDITION_BOUND_MS);
      assertEquals(await within(`${kind} ends`, driver.end(), CONDITION_BOUND_MS), 0);
    });
  });
}

excludesEachOther("ZooKeeperLock and Curator's InterProcessMutex", ["ours", "curator"]);
excludesEachOther("ZooKeeperLock in both modes and kazoo's Lock with our pattern", [
  ...["ours", "ours-shared", "kazoo-patterns"] as const,
]);
excludesEachOther("ZooKeeperLock in both modes, Curator and kazoo under Curator's names", [
  ...["ours", "ours-shared", "curator", "kazoo-curator-names"] as const,
]);
doNotExcludeEachOther("stock Curator and stock kazoo", ["curator", "kazoo"]);
doNotExcludeEachOther("Curator and kazoo with our pattern", ["curator", "kazoo-patterns"]);
doNotExcludeEachOther("ZooKeeperLock and stock kazoo", ["ours", "kazoo"]);
for (const kind of ["ours", "curator", "kazoo-patterns", "kazoo-curator-names"] as const) {
  waitsForTheLastReader(kind);
}

Deno.test("ZooKeeperLock does not delete the znode of an unused lock that has a permanent child", async () => {
  const rootPath = newRoot();
  await observing(server.connectString, async (observer) => {
    await observer.make(`${rootPath}/kept/keep`);
    const tokens: bigint[] = [];
    for (let i = 0; i < 2; i++) {
      await using locks = new ZooKeeperLock(server.connectString, { rootPath });
      for (const name of ["kept", "plain"]) {
        await using lease = await locks.acquire(name);
        if (name === "kept") tokens.push(lease.fencingToken);
      }
    }
    assertEquals(await observer.children(rootPath), ["kept"]);
    assertEquals(await observer.children(`${rootPath}/kept`), ["keep"]);
    assert(tokens[0]! < tokens[1]!);
  });
});
