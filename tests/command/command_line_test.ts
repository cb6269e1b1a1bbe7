/**
 * The command line of `holdfast`: its help, and what it says of wrong arguments.
 */
import { assert, assertEquals, assertLessOrEqual, assertMatch, assertRejects } from "@std/assert";
import type { CommandContext } from "../../command/command.ts";
import { runCommandLine } from "../../command/command_line.ts";
import { run } from "../../command/run.ts";
import { show } from "../../command/show.ts";
import { LockSetupError, MemoryLock } from "../../mod.ts";

/** A terminal, in whose last line the prompt is. */
const SCREEN = { lines: 24 - 1, columns: 80 } as const;

/** Runs it in this process. */
async function runIn(args: readonly string[]) {
  const [stdout, stderr]: [string[], string[]] = [[], []];
  const code = await runCommandLine(args, {
    url: undefined,
    say: (text) => stderr.push(`${text}\n`),
    print: (text) => stdout.push(`${text}\n`),
  });
  return { code, stdout: stdout.join(""), stderr: stderr.join("") };
}

for (const command of ["", "run", "show", "list", "release", "doctor"]) {
  Deno.test(`holdfast ${command} --help fits a screen, and has an example`, async () => {
    const { code, stdout, stderr } = await runIn([...command ? [command] : [], "--help"]);
    assertEquals([code, stderr], [0, ""]);
    const lines = stdout.trimEnd().split("\n");
    assertLessOrEqual(lines.length, SCREEN.lines);
    for (const line of lines) assertLessOrEqual(line.length, SCREEN.columns, line);
    assertMatch(lines.at(0)!, /^Usage: holdfast /);
    assertMatch(lines.at(-1)!, new RegExp(`^Example: holdfast ${command}`));
  });
}

Deno.test("holdfast run: wrong arguments are 64, with a way to the help", async () => {
  for (
    const [args, says] of [
      [["fly"], /no command fly/],
      [["redis://:hunter2@h"], /no command like that/],
      [["doctor", "redis://:hunter2@h"], /is --at missing/],
      [["run"], /name of the lock is missing/],
      [["run", "a"], /command is missing/],
      [["run", "a", "./x", "--limit", "9"], /behind --/],
      [["run", "a", "./x", "--", "y"], /behind --/],
      [["run", "a", "--", "true"], /--at URL/],
      [["run", "--at", "memory:", "a", "--", "true"], /no other process/],
      [["run", "--at", "file:", "--wait", "5", "a", "--", "true"], /--wait must be a duration/],
      [["run", "--at", "file:", "--ttl", "5s", "a", "--", "true"], /--ttl is for Redis/],
      [["run", "--at", "file:", "-E", "256", "a", "--", "true"], /-E must be/],
      [["run", "--at", "file:", "--wait", "5s", "--no-wait", "a", "--", "true"], /exclude/],
      [["run", "--at", "file:", "--forever", "a", "--", "true"], /--forever/],
      [["run", "--at", "ftp://:hunter2@h", "a", "--", "true"], /scheme must be/],
    ] as const
  ) {
    const { code, stderr } = await runIn(args);
    assertEquals(code, 64, stderr);
    assertMatch(stderr, says);
    assertMatch(stderr, /\nTry: holdfast .*--help\n$/);
    assert(!stderr.includes("hunter2"));
  }
});

Deno.test("holdfast run: refuses on Windows, where it could not end the command", async () => {
  const context = { url: () => "file:///none" } as Partial<CommandContext> as CommandContext;
  await assertRejects(() => run(["a", "--", "true"], context, "win32"), LockSetupError, "Windows");
});

Deno.test("holdfast show: counts the holders that it does not list", async () => {
  await using locks = new MemoryLock();
  const leases = Array.from({ length: 66 }, () => locks.acquire("a", { mode: "shared" }));
  await Promise.all(leases);
  const printed: string[] = [];
  const context: CommandContext = {
    url: () => "memory:",
    withLocks: (_url, work) => work(locks),
    say: () => {},
    print: (text) => printed.push(text),
  };
  assertEquals(await show(["a"], context), 0);
  assertEquals(printed.filter((line) => line.startsWith("  holder")).length, 64);
  assertEquals(printed.at(-1), "  and 2 more holders");
});
