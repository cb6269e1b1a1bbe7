import { assert, assertEquals } from "@std/assert";
import { startGuarded } from "../../../testing/servers/guarded_process.ts";
import { exists, isAlive, startHolding } from "../../../testing/servers/process_checks.ts";
import { waitUntil } from "../../../testing/servers/wait.ts";

const SLEEP = ["sleep", "300"];

Deno.test("startGuarded() ends the process and removes its directory on disposal", async () => {
  const directory = await Deno.makeTempDir({ prefix: "holdfast-" });
  const guarded = await startGuarded({ command: SLEEP, remove: directory });
  assert(guarded.isRunning);
  assert(await isAlive(guarded.pid));
  await guarded[Symbol.asyncDispose]();
  assertEquals(await isAlive(guarded.pid), false);
  assertEquals((await guarded.exited).signal, "SIGKILL");
  assertEquals(await exists(directory), false);
  await guarded[Symbol.asyncDispose]();
});

Deno.test("startGuarded() can restart a process that was killed", async () => {
  await using guarded = await startGuarded({ command: SLEEP });
  const firstPid = guarded.pid;
  guarded.kill("SIGTERM");
  assertEquals((await guarded.exited).signal, "SIGTERM");
  assertEquals(guarded.isRunning, false);
  guarded.kill();
  await guarded.restart();
  assert(guarded.pid !== firstPid);
  assert(await isAlive(guarded.pid));
  const secondPid = guarded.pid;
  await guarded.restart();
  assertEquals(await isAlive(secondPid), false);
});

Deno.test("startGuarded() passes arguments unchanged and writes the output to the log file", async () => {
  const logFile = await Deno.makeTempFile();
  const text = "a  'b' $HOME \\ *";
  await using guarded = await startGuarded({ command: ["printf", "%s|", text, ""], logFile });
  assertEquals((await guarded.exited).code, 0);
  assertEquals(await Deno.readTextFile(logFile), `${text}||`);
  await Deno.remove(logFile);
});

Deno.test("startGuarded() runs the stop command on disposal", async () => {
  const file = await Deno.makeTempFile();
  const guarded = await startGuarded({ command: SLEEP, stop: ["rm", file] });
  assert(await exists(file));
  await guarded[Symbol.asyncDispose]();
  assertEquals(await exists(file), false);
});

for (const signal of ["SIGKILL", "SIGTERM", "SIGINT"] as const) {
  Deno.test(`startGuarded() ends the process when its parent gets ${signal}`, async () => {
    await using parent = await startHolding("sleep");
    const { pid, directory = "" } = parent.held;
    assert(await isAlive(pid));
    parent.kill(signal);
    await waitUntil("the process is gone", async () => !await isAlive(pid));
    await waitUntil("its directory is gone", async () => !await exists(directory));
  });
}

Deno.test("startGuarded() ends the process after Ctrl-C", async () => {
  await using parent = await startHolding("sleep");
  const { pid, directory = "" } = parent.held;
  parent.killGroup("SIGINT");
  await waitUntil("the process is gone", async () => !await isAlive(pid));
  await waitUntil("its directory is gone", async () => !await exists(directory));
});

Deno.test("startGuarded() removes the directory even if the parent dies after the process", async () => {
  await using parent = await startHolding("sleep");
  const { pid, directory = "" } = parent.held;
  Deno.kill(pid, "SIGKILL");
  await waitUntil("the process is gone", async () => !await isAlive(pid));
  assert(await exists(directory));
  parent.kill("SIGKILL");
  await waitUntil("its directory is gone", async () => !await exists(directory));
});
