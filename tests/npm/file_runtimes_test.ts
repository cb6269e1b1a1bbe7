/**
 * `FileLock` in processes of Deno, Node 22 and Bun that use the same directory.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { lockPath } from "../../file/lock_directory.ts";
import { within } from "../../testing/conformance/bounds.ts";
import { asRoot, attempt } from "../../testing/file/attempts.ts";
import { startMember, type WatchReport } from "../../testing/file/members.ts";
import { temporary } from "../../testing/file/lock_directories.ts";
import { race } from "../../testing/file/race.ts";
import { bundle, runtimes } from "../../testing/file/file_runtimes.ts";
import { say } from "../../testing/processes/figures.ts";
import { randomOf, seedOf } from "../../testing/processes/random.ts";
import { makeTempDirectory } from "../../testing/runtime/temporary_files.ts";
import { runCommand } from "../../testing/servers/command.ts";
import { LONG_BOUND_MS, scaled } from "../../testing/time.ts";

const SOAK = Boolean(Deno.env.get("HOLDFAST_SOAK"));
const ROUNDS = SOAK ? 2_000 : 40;
const RACE_MS = SOAK ? 300_000 : 3_000;
const HANDOFFS = SOAK ? 10_000 : 60;
const COUNT_BOUND_MS = scaled(600_000);
const ENTRY = fileURLToPath(new URL("../../file/mod.ts", import.meta.url));
const COMMAND_BOUND_MS = LONG_BOUND_MS;

const bundles = await makeTempDirectory();
Deno.test.afterAll(() => Deno.remove(bundles, { recursive: true }));
const all = Deno.build.os === "windows" ? [] : await runtimes(bundles);
const others = all.filter(({ name }) => name !== "Deno");
const isLinux = Deno.build.os === "linux";
const note = isLinux ? "" : " (skipped: this needs Linux)";

Deno.test("FileLock in processes of three runtimes loses no increment while files are deleted", async () => {
  await using temp = await temporary();
  const [dir, counter] = [`${temp.dir}/locks`, `${temp.dir}/counter`];
  await Deno.writeTextFile(counter, "0");
  await Deno.mkdir(dir, { mode: 0o700 });
  const fleet = [...all, ...all];
  const members = fleet.map((runtime) =>
    startMember(runtime, { do: "count", dir, counter, rounds: ROUNDS })
  );
  const done = Promise.all(members.map((member) => member.report()));
  await within("all have counted", done, COUNT_BOUND_MS);
  assertEquals(Number(await Deno.readTextFile(counter)), fleet.length * ROUNDS);
  for (const member of members) assertEquals(await member.end(), 0);
  for (const member of members) await member[Symbol.asyncDispose]();
});

Deno.test({
  name:
    `FileLock excludes processes of other runtimes, and tokens grow, while some are killed${note}`,
  ignore: !isLinux,
  async fn() {
    await using temp = await temporary();
    const seed = seedOf();
    const options = { processes: 3, durationMs: RACE_MS, killEveryMs: 700, runtimes: all };
    const { grants, kills, violations } = await race({ base: temp.dir, seed, ...options });
    say(`seed ${seed}: ${grants} grants, ${kills} kills`);
    assertEquals(violations, []);
    assert(grants > 20 && kills > 2, "hardly anything happened");
  },
});

for (const [i, holder] of all.entries()) {
  const waiter = all[(i + 1) % all.length]!;
  Deno.test(
    `FileLock.acquire() in ${waiter.name} is notified when its holder in ${holder.name} was killed, also if a child of that one lives`,
    async () => {
      await using temp = await temporary();
      await using held = startMember(holder, { do: "hold", dir: temp.dir });
      const { pid } = await within("the lock is held", held.report()) as { pid: number };
      await using waiting = startMember(waiter, { do: "acquire", dir: temp.dir });
      assertEquals(await within("the other process waits", waiting.report()), "waits");
      held.kill("SIGKILL");
      assertEquals(await within("the waiter gets the lock", waiting.report()), true);
      process.kill(pid, "SIGKILL"); // It throws if the child has ended.
      assertEquals(await within("the other process ends", waiting.ended), 0);
    },
  );
}

Deno.test("FileLock.acquire() is notified of each release by a process of another runtime", async () => {
  await using temp = await temporary();
  const seed = seedOf();
  say(`seed ${seed}`);
  const random = randomOf(seed);
  await using stack = new AsyncDisposableStack();
  const task = { do: "take turns", dir: temp.dir } as const;
  const members = all.map((runtime) => stack.use(startMember(runtime, task)));
  let holder = members[0]!;
  await holder.send("acquire");
  assertEquals(await within("it gets the lock", holder.report()), "holds");
  for (let handoff = 0; handoff < HANDOFFS; handoff++) {
    const idle = members.filter((member) => member !== holder);
    const waiter = idle[Math.floor(random() * idle.length)]!;
    await waiter.send("acquire");
    assertEquals(await within("the next process waits", waiter.report()), "waits");
    await holder.send("release");
    assertEquals(await within("the next process is notified", waiter.report()), "holds");
    holder = waiter;
  }
  await holder.send("release");
  for (const member of members) assertEquals(await within("it ends", member.end()), 0);
});

for (const runtime of all) {
  Deno.test({
    name: `FileLock in ${runtime.name} rejects with a LockSetupError in /proc${note}`,
    ignore: !isLinux,
    async fn() {
      const guard = ["timeout", "--signal=KILL", "60"];
      const outcome = await attempt({ options: { dir: "/proc/holdfast/locks" } }, {
        ...{ runtime, through: guard },
      });
      assertEquals(outcome.result, "LockSetupError", outcome.message);
      assertMatch(outcome.message!, /"\/proc\/holdfast\/locks" cannot be created: choose another/);
    },
  });
}

for (const runtime of others) {
  Deno.test(`FileLock in ${runtime.name} checks what lies on the way to the target of a link`, async () => {
    await using temp = await temporary();
    await Deno.mkdir(`${temp.dir}/safe/locks`, { recursive: true, mode: 0o700 });
    await Deno.mkdir(`${temp.dir}/open`);
    await Deno.symlink(`${temp.dir}/open/second`, `${temp.dir}/first`);
    await Deno.symlink("../safe", `${temp.dir}/open/second`);
    const options = { dir: `${temp.dir}/first/locks` };
    for (const [mode, result] of [[0o777, "LockSetupError"], [0o700, "granted"]] as const) {
      await Deno.chmod(`${temp.dir}/open`, mode);
      const outcome = await attempt({ options }, { runtime });
      assertEquals(outcome.result, result, outcome.message);
    }
  });

  Deno.test({
    name:
      `FileSystem.watch() in ${runtime.name} reports changes, and does not keep it alive${note}`,
    ignore: !isLinux,
    async fn() {
      await using temp = await temporary();
      await using member = startMember(runtime, { do: "watch", dir: temp.dir });
      const report = await within("it reports", member.report()) as WatchReport;
      assertEquals(report.changes, {
        ...{ written: [], closed: ["a"], read: [], renamed: ["a", "b"], removed: ["b"] },
      });
      assertEquals(report.descriptors, 2, "those of the other watches");
      assertEquals(report.pipes, 0);
      assertEquals(await within("the process ends with a watch", member.ended), 0);
    },
  });

  Deno.test(`OpenFile.tryLock() in ${runtime.name} throws any error but EWOULDBLOCK`, async () => {
    await using temp = await temporary();
    const path = `${temp.dir}/file`;
    await using member = startMember(runtime, { do: "lock closed", path });
    const report = await within("it reports", member.report()) as Record<string, string>;
    assertEquals(report["code"], "EBADF", JSON.stringify(report));
  });
}

for (const runtime of others) {
  asRoot(`FileLock in ${runtime.name} tells errors of the set-up from outages`, async () => {
    await using temp = await temporary(0o755);
    const dir = `${temp.dir}/locks`;
    const options = { dir };
    await Deno.mkdir(dir, { mode: 0o700 });
    const mounted = (mount: string) => ({
      ...{ runtime, through: ["unshare", "--mount", "sh", "-c", `${mount} && exec "$@"`, "sh"] },
    });
    const full = `mount -t tmpfs -o mode=700,size=4k none ${dir} && printf %4096s x >${dir}/x`;
    const outcomes = {
      granted: await attempt({ options }, { runtime }),
      readOnly: await attempt({ options }, mounted(`mount -t tmpfs -o ro,mode=700 none ${dir}`)),
      full: await attempt({ options }, mounted(full)),
      tooManyFiles: await attempt({ options, openFiles: 999 }, {
        ...{ runtime, through: ["prlimit", "--nofile=99:99"] },
      }),
    };
    await Deno.symlink("/dev/null", lockPath(dir, "linked"));
    const linked = await attempt({ options, name: "linked" }, { runtime });
    await Deno.chmod(dir, 0o777);
    const open = await attempt({ options }, { runtime });
    const results = Object.values({ ...outcomes, linked, open }).map(({ result }) => result);
    const [setup, outage] = ["LockSetupError", "LockUnavailableError"];
    assertEquals(results, ["granted", setup, outage, outage, setup, setup]);
    assertEquals(outcomes.full.files, ["x"], "on a full disk it leaves no file");
  });
}

Deno.test("new FileLock() throws a LockSetupError in Node without koffi, which says what to install", async () => {
  await using temp = await temporary();
  const node = all.find(({ name }) => name === "Node")!;
  await using member = startMember({ ...node, env: { NODE_PATH: "" } }, {
    ...{ do: "create", dir: temp.dir },
  });
  const report = await within("it reports", member.report()) as Record<string, string>;
  assertEquals([report["name"], report["code"]], ["LockSetupError", "ERR_LOCK_SETUP"]);
  assertMatch(
    report["message"]!,
    /"koffi", which is not installed where ".+" can find it: run `npm install koffi`/,
  );
});

for (const { name, program, env } of others) {
  Deno.test(`FileLock works in ${name} in a CommonJS bundle beside its node_modules`, async () => {
    await using temp = await temporary();
    const file = `${temp.dir}/app/locks.cjs`;
    await Deno.mkdir(`${temp.dir}/app`);
    await Deno.symlink(env.NODE_PATH, `${temp.dir}/app/node_modules`);
    await bundle(["--format", "cjs", "-o", file, ENTRY]);
    await Deno.writeTextFile(`${temp.dir}/main.cjs`, main(file, `${temp.dir}/locks`));
    assertEquals(await run([program, `${temp.dir}/main.cjs`]), "locked\n");
  });
}

Deno.test("FileLock throws a LockSetupError in Node when koffi does not work", async () => {
  await using temp = await temporary();
  const { program } = all.find(({ name }) => name === "Node")!;
  const koffi = `${temp.dir}/node_modules/koffi`;
  await Deno.mkdir(koffi, { recursive: true });
  await Deno.writeTextFile(`${koffi}/index.js`, `throw new Error("no binary for this system")`);
  const file = `${temp.dir}/locks.cjs`;
  await bundle(["--format", "cjs", "-o", file, ENTRY]);
  await Deno.writeTextFile(`${temp.dir}/main.cjs`, main(file, `${temp.dir}/locks`));
  const output = await run([program, `${temp.dir}/main.cjs`]);
  assertEquals(output.split(":")[0], "LockSetupError");
  assert(output.includes("does not work here (no binary for this system)"), output);
  assert(output.endsWith("caused by Error: no binary for this system\n"), output);
});

/** A script that locks once, and prints the error if there is one. */
function main(bundle: string, dir: string): string {
  return `
    const { FileLock } = require(${JSON.stringify(bundle)});
    const run = async () => {
      const locks = new FileLock({ dir: ${JSON.stringify(dir)} });
      console.log(await locks.request("n", () => "locked"));
      await locks[Symbol.asyncDispose]();
    };
    run().catch((error) =>
      console.log(error.name + ": " + error.message + " caused by " + error.cause));`;
}

/** Runs a command without the variables with which this process finds packages. */
async function run(command: readonly string[]): Promise<string> {
  const { success, output } = await runCommand(command, COMMAND_BOUND_MS, {
    env: { NODE_PATH: "" },
  });
  assert(success, output);
  return output;
}
