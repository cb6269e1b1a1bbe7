/**
 * A relative directory of `FileLock`, in processes that change their working directory.
 */
import { assertEquals } from "@std/assert";
import { temporary } from "../../testing/file/lock_directories.ts";
import { scriptCommand } from "../../testing/runtime/processes.ts";

const SCRIPT = new URL("../../testing/file/relative_directory.ts", import.meta.url);

/** Runs a scene of the script in a directory of its own. */
async function play(scene: string): Promise<void> {
  await using temp = await temporary();
  const [command, ...args] = scriptCommand(SCRIPT);
  const child = new Deno.Command(command!, { args: [...args, scene], cwd: temp.dir });
  const { code, stdout, stderr } = await child.output();
  const [out, errors] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
  assertEquals([code, out], [0, "done\n"], errors);
}

Deno.test("FileLock keeps its relative 'dir' when the process changes its directory", async () => {
  await play("moves");
});

Deno.test("FileLock refuses a relative 'dir' when the working directory does not exist", async () => {
  await play("nowhere");
});
