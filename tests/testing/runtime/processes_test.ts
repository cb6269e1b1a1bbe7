import { assertEquals, assertThrows } from "@std/assert";
import process from "node:process";
import { linesOf } from "../../../testing/runtime/lines.ts";
import { isStopped, spawnProcess } from "../../../testing/runtime/processes.ts";
import { waitUntil } from "../../../testing/servers/wait.ts";
import { startChild } from "../../../testing/processes/child.ts";

Deno.test("linesOf() resolves a pending next() with null when it is cancelled", async () => {
  // The grandchild keeps the output open after its parent has ended.
  const child = spawnProcess(["sh", "-c", "echo one; sleep 60 & echo $!"], { stdout: "pipe" });
  const lines = linesOf(child.stdout!);
  assertEquals(await lines.next(), "one");
  using stack = new DisposableStack();
  const grandchild = Number(await lines.next());
  stack.defer(() => process.kill(grandchild, "SIGKILL"));
  const pending = lines.next();
  await child.ended;
  await lines.cancel();
  await lines.cancel();
  assertEquals(await pending, null);
});

Deno.test("linesOf() decodes a character that is split between two chunks", async () => {
  const script = "printf 'a\\303'; sleep 0.1; printf '\\251\\nb\\nlost'";
  const child = spawnProcess(["sh", "-c", script], { stdout: "pipe" });
  const lines = linesOf(child.stdout!);
  assertEquals([await lines.next(), await lines.next(), await lines.next()], ["aé", "b", null]);
  await child.ended;
});

Deno.test("linesOf() keeps the lines of a process that ended before they were read", async () => {
  const child = spawnProcess(["sh", "-c", "seq 20000"], { stdout: "pipe" });
  const lines = linesOf(child.stdout!);
  assertEquals(await lines.next(), "1");
  await child.ended;
  let count = 1;
  while (await lines.next() !== null) count++;
  assertEquals(count, 20_000);
  const quick = spawnProcess(["echo", "done"], { stdout: "pipe" });
  const late = linesOf(quick.stdout!);
  await quick.ended;
  await spawnProcess(["true"]).ended;
  assertEquals([await late.next(), await late.next()], ["done", null]);
});

Deno.test("spawnProcess() sends every signal, not only the first", async () => {
  const child = spawnProcess(["sleep", "60"]);
  child.kill("SIGSTOP");
  child.kill("SIGCONT");
  child.kill("SIGTERM");
  assertEquals(await child.ended, { code: 143, signal: "SIGTERM" });
  child.kill("SIGKILL");
});

Deno.test("spawnProcess() throws for a program that does not exist", () => {
  assertThrows(() => spawnProcess(["no-such-program"]), Error, "Cannot start no-such-program");
});

Deno.test("startChild() ignores writes and disposal after the child has ended", async () => {
  const script = new URL("../../../testing/processes/testdata/now.ts", import.meta.url);
  const child = startChild(script, null);
  child.kill("SIGKILL");
  assertEquals(await child.ended, 137);
  await child.send("late");
  assertEquals(await child.end(), 137);
  await child[Symbol.asyncDispose]();
  await child[Symbol.asyncDispose]();
});

Deno.test("isStopped() tells whether a process is stopped, and null for one that does not exist", async () => {
  const child = spawnProcess(["sleep", "60"]);
  if (isStopped(child.pid) !== null) { // The system tells.
    assertEquals(isStopped(child.pid), false);
    child.kill("SIGSTOP");
    await waitUntil("it is stopped", () => isStopped(child.pid) === true);
    child.kill("SIGCONT");
    await waitUntil("it runs", () => isStopped(child.pid) === false);
  }
  child.kill("SIGKILL");
  await child.ended;
  assertEquals(isStopped(child.pid), null);
});
