/**
 * The shell script of `docs/files.md`: it and `FileLock` exclude each other.
 */
import { assertEquals } from "@std/assert";
import { FileLock } from "../../file/mod.ts";
import { temporary } from "../../testing/file/lock_directories.ts";
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
