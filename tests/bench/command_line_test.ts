import { assertEquals, assertThrows } from "@std/assert";
import { readCommand, usageOf } from "../../bench/command_line.ts";

const KNOWN = ["uncontended", "contended", "http"];

Deno.test("readCommand() runs all suites by default, and a named subset with --quick", () => {
  const all = readCommand([], KNOWN)!;
  assertEquals(all.suites, KNOWN);
  assertEquals(all.out, "docs/bench");
  assertEquals(all.options, { isQuick: false, clients: 1 });
  const quick = readCommand(["--quick", "--rounds", "3"], KNOWN)!;
  assertEquals(quick.suites, ["uncontended", "contended"]);
  assertEquals(quick.out, "docs/bench/quick", "a quick run does not replace full figures");
  assertEquals(quick.options, { isQuick: true, clients: 1, rounds: 3 });
  const named = readCommand(["http", "--quick", "--clients", "8", "--out", "here"], KNOWN)!;
  assertEquals([named.suites, named.out, named.options.clients], [["http"], "here", 8]);
});

Deno.test("readCommand() says which argument is wrong", () => {
  assertThrows(() => readCommand(["etcd"], KNOWN), TypeError, 'suite "etcd"');
  assertThrows(() => readCommand(["--rounds", "0"], KNOWN), RangeError, "--rounds 0");
  assertThrows(() => readCommand(["--clients", "x"], KNOWN), RangeError, "--clients x");
  assertEquals(readCommand(["--help"], KNOWN), null);
  for (const suite of KNOWN) assertEquals(usageOf(KNOWN).includes(suite), true);
});
