import { assertEquals, assertRejects } from "@std/assert";
import { changedFiles } from "../../../testing/runner/changed.ts";
import { Output } from "../../../testing/runner/output.ts";
import { reportRun } from "../../../testing/runner/run.ts";
import { runCommand } from "../../../testing/servers/command.ts";
import { CONDITION_BOUND_MS } from "../../../testing/time.ts";

Deno.test("changedFiles() names files that differ from a revision, committed or not", async () => {
  const cwd = await Deno.makeTempDir({ prefix: "holdfast-" });
  const git = async (...args: string[]) => {
    const identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
    const result = await runCommand(["git", ...identity, ...args], CONDITION_BOUND_MS, { cwd });
    assertEquals(result.success, true, result.output);
  };
  const write = (name: string, text: string) => Deno.writeTextFile(`${cwd}/${name}`, text);
  await git("init", "-q");
  for (const name of ["a", "b", "c d"]) await write(name, "1");
  await git("add", ".");
  await git("commit", "-qm", "one");
  await write("a", "2");
  await git("commit", "-qam", "two");
  await write("c d", "2");
  assertEquals(await changedFiles("HEAD~1", cwd), new Set(["a", "c d"]));
  assertEquals(await changedFiles("HEAD", cwd), new Set(["c d"]));
  await assertRejects(() => changedFiles("no-such", cwd), Error, 'Cannot compare with "no-such"');
  await Deno.remove(cwd, { recursive: true });
});

Deno.test("reportRun() fails when a test of a changed file needed a second try", async () => {
  const summary = { passed: 2, failed: 0, skipped: 0, skippedNames: [], failures: [] };
  const file = "tests/a_test.ts";
  const run = {
    seed: 1,
    rounds: [{
      title: "",
      timeMs: 0,
      files: [{ file, seconds: 1, factor: 1, summary, output: "" }],
    }],
    atSecondTry: [{ file, test: "a", text: "Error: no" }],
  };
  const output = new Output(false);
  const report = (changed: string[]) =>
    reportRun(run, new Set(changed), { hasServers: false, range: "1", output });
  assertEquals(report(["tests/b_test.ts"]), true);
  assertEquals(report([file]), false);
  await Deno.remove(output.logPath);
});
