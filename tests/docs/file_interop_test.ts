/**
 * The shell script of `docs/files.md`: it and `FileLock` exclude each other. Its program that runs a command
 * under a lock keeps it until the command has ended.
 */
import { assert, assertEquals } from "@std/assert";
import { lockPath } from "../../file/lock_directory.ts";
import { FileLock } from "../../file/mod.ts";
import { temporary } from "../../testing/file/lock_directories.ts";
import { spawnProcess } from "../../testing/runtime/processes.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { userImports } from "../../tools/import_map.ts";
import { blocksIn } from "../../tools/docs/snippets.ts";

const PAGE = "docs/files.md";
const DIRECTORY = "/run/my-app/locks";
const COMMAND = "./backup.sh";
/** The exit code of `flock -n` when the lock is held. */
const HELD = 1;

const hasFlock = await new Deno.Command("flock", { args: ["--version"], stdout: "null" }).output()
  .then(({ success }) => success, () => false);

/** The script of the page, for a directory, without a wait. */
function scriptFor(dir: string): string {
  const block = blocksIn(PAGE, Deno.readTextFileSync(PAGE)).find(({ info }) => info === "sh")!;
  return block.code.replace(DIRECTORY, dir).replace(COMMAND, "true").replace("flock ", "flock -n ");
}

Deno.test({
  name: `the script of ${PAGE} locks the file of the lock that it names${
    hasFlock ? "" : " (skipped: this needs flock(1))"
  }`,
  ignore: !hasFlock,
  async fn() {
    await using temp = await temporary();
    const script = scriptFor(temp.dir);
    const run = async () => (await new Deno.Command("sh", { args: ["-c", script] }).output()).code;
    await using locks = new FileLock({ dir: temp.dir, keepFiles: true });
    const lease = await locks.acquire("backup");
    assertEquals(await run(), HELD);
    await lease.release();
    assertEquals(await run(), 0);
  },
});

Deno.test({
  name: `the script of ${PAGE} makes a file that the other users of a sharedDir can lock`,
  ignore: !hasFlock,
  async fn() {
    await using temp = await temporary();
    const script = `umask 022\n${scriptFor(temp.dir)}`;
    const { code } = await new Deno.Command("sh", { args: ["-c", script] }).output();
    assertEquals(code, 0);
    const { mode } = await Deno.stat(lockPath(temp.dir, "backup"));
    assertEquals(mode! & 0o777, 0o660);
  },
});

Deno.test("with_lock.js of docs/files.md keeps the lock after SIGINT and SIGHUP, until its command has ended", async () => {
  await using temp = await temporary();
  const { dir } = temp;
  const exists = (name: string) => Deno.stat(`${dir}/${name}`).then(() => true, () => false);
  const { code } = blocksIn(PAGE, Deno.readTextFileSync(PAGE)).find(({ code }) =>
    code.includes("with_lock.js")
  )!;
  await Deno.writeTextFile(`${dir}/with_lock.js`, code.replace("./locks", `${dir}/locks`));
  const command = `trap "echo x > ${dir}/told" HUP; echo x > ${dir}/started
    while [ -e ${dir}/started ] && [ ! -e ${dir}/end ]; do sleep 0.02; done`;
  const map = encodeURIComponent(JSON.stringify({ imports: await userImports() }));
  const program = spawnProcess([
    ...[Deno.execPath(), "run", "-A", "-q", `--import-map=data:application/json,${map}`],
    ...[`${dir}/with_lock.js`, "sh", "-c", command],
  ]);
  await using stack = new AsyncDisposableStack();
  stack.defer(async () => {
    await Deno.writeTextFile(`${dir}/end`, "");
    await program.ended;
  });
  let hasEnded = false;
  const ended = program.ended.finally(() => hasEnded = true);
  await waitUntil("the command runs", () => exists("started"));
  program.kill("SIGINT"); // as Ctrl-C, which reaches the command, too
  program.kill("SIGHUP");
  await waitUntil("the command is told", async () => hasEnded || await exists("told"));
  assert(!hasEnded, "the program waits for its command");
  const locks = stack.use(new FileLock({ dir: `${dir}/locks` }));
  assertEquals(await locks.tryAcquire("backup"), null);
  await Deno.writeTextFile(`${dir}/end`, "");
  await ended; // Deno takes the signal that it has sent for the cause of the end, so the code differs
  const lease = await locks.tryAcquire("backup");
  assert(await lease?.release(), "then the lock is free");
});
