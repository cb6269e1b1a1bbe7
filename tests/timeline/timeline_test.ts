/** `recordLocks()` and `drawLocks()`: what is recorded, and what is read and drawn of it. */
import { closeSync, openSync } from "node:fs";
import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { FakeLock } from "../../fake/mod.ts";
import { MemoryLock } from "../../mod.ts";
import { scriptCommand } from "../../testing/runtime/processes.ts";
import { collectWarnings } from "../../testing/runtime/reports.ts";
import { makeTempDirectory } from "../../testing/runtime/temporary_files.ts";
import { runCommand } from "../../testing/servers/command.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { LONG_BOUND_MS } from "../../testing/time.ts";
import { drawLocks, recordLocks } from "../../timeline/mod.ts";

const SOAK = Boolean(Deno.env.get("HOLDFAST_SOAK"));
/** How many lines the long recording has, two for each call. */
const LINES = SOAK ? 1_000_000 : 20_000;
const WALL_MS = Date.UTC(2026, 10, 24, 12);

interface Recorded {
  readonly on: string;
  readonly [member: string]: unknown;
}

/** A folder for recordings. */
async function withFolder(test: (dir: string) => Promise<void>): Promise<void> {
  const dir = await makeTempDirectory();
  try {
    await test(dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

function startLine(process: string, wallMs = WALL_MS): string {
  return JSON.stringify({ on: "start", v: 1, process, wallMs, at: 0 });
}

/** A lease that was held from one time to another, and waited for before. */
function cycle(hold: number, fromMs: number, toMs: number, waitedMs = 0, name = "n"): string[] {
  const call = { strategy: "redis", name };
  return [
    ...waitedMs > 0
      ? [JSON.stringify({ on: "wait", at: fromMs - waitedMs, call: hold, ...call })]
      : [],
    JSON.stringify({
      ...{ on: "grant", at: fromMs, hold, ...call, token: `${1_000 + hold}`, waitedMs },
      ...waitedMs > 0 ? { call: hold } : {},
    }),
    JSON.stringify({ on: "release", at: toMs, hold, heldMs: toMs - fromMs }),
  ];
}

/** What `holdfast draw` prints, with a heap that has no place for all calls of a long recording. */
async function drawIn64MB(file: string): Promise<string> {
  const main = new URL("../../command/main.ts", import.meta.url);
  const command = [...scriptCommand(main), "draw", file];
  command.splice(2, 0, "--v8-flags=--max-old-space-size=64");
  const { success, output } = await runCommand(command, LONG_BOUND_MS);
  assert(success, output.slice(-1_000));
  return output;
}

Deno.test("recordLocks() writes waits, their holders, grants, losses and ends, without an owner id", async () => {
  const lines: string[] = [];
  const recording = recordLocks({ write: (line) => void lines.push(line), process: "checkout" });
  await using locks = new FakeLock({ disposeTimeoutMs: 0, label: "me" });
  const holder = locks.holdElsewhere("order:42", { label: "nightly-export" });
  assertEquals(await locks.tryAcquire("order:42"), null);
  const waiting = locks.acquire("order:42");
  await waitUntil("the holder is read", () => lines.some((line) => line.includes("nightly")));
  holder.release();
  const lease = await waiting;
  locks.loseLease("order:42", "expired");
  await recording[Symbol.asyncDispose]();
  await locks.request("order:42", () => {}); // nobody records it
  const read = lines.map((line): Recorded => JSON.parse(line));
  assertEquals(read.map(({ on }) => on).filter((on) => on !== "clock"), [
    ...["start", "end", "wait", "blocked", "grant", "lost", "stop"],
  ]);
  const of = (on: string) => read.find((line) => line.on === on)!;
  assertEquals([of("start").process, of("end").outcome], ["checkout", "busy"]);
  assertEquals([of("wait").name, of("wait").label, of("wait").position], ["order:42", "me", 1]);
  assertEquals(of("blocked").holderLabel, "nightly-export");
  assertEquals([of("grant").call, of("lost").hold], [of("wait").call, of("grant").hold]);
  assertEquals([of("lost").reason, of("grant").token], ["expired", `${lease.fencingToken}`]);
  assert(!lines.join().includes(lease.ownerId));
});

Deno.test("recordLocks() records what `rename` returns, and hides a name for which it throws", async () => {
  const lines: string[] = [];
  const rename = (name: string) => {
    if (name === "secret:1") throw new Error(name);
    return name.replace(/\d+/, "#");
  };
  await using _recording = recordLocks({ write: (line) => void lines.push(line), rename });
  await using locks = new FakeLock({ disposeTimeoutMs: 0 });
  await locks.request("order:42", () => {});
  await locks.request("secret:1", () => {});
  using _outage = locks.startOutage();
  await assertRejects(() => locks.acquire("order:42")); // its message has the name
  const text = lines.join("\n");
  assert(text.includes("order:#") && text.includes('"?"') && text.includes("ERR_LOCK_UNAVAILABLE"));
  assert(!text.includes("42") || !text.includes("order:42"), text);
  assert(!text.includes("secret"), text);
});

Deno.test("recordLocks() ends with a warning when `write` throws, and ends no call", async () => {
  let calls = 0;
  const write = () => {
    if (++calls === 2) throw new Error("full");
  };
  using warnings = collectWarnings();
  await using _recording = recordLocks({ write });
  await using locks = new MemoryLock();
  for (let i = 0; i < 3; i++) await locks.request("n", () => {});
  assertEquals(calls, 2);
  await waitUntil("it has warned", () => warnings.messages.length > 0);
  assertEquals(warnings.messages, ["Cannot record locks, the recording has ended: full"]);
});

Deno.test("recordLocks() ends with a warning when `write` rejects, and ends no call", async () => {
  let calls = 0;
  const write = async () => {
    calls++;
    await Promise.reject(new Error("full"));
  };
  using warnings = collectWarnings();
  await using _recording = recordLocks({ write });
  await using locks = new MemoryLock();
  await locks.request("n", () => {});
  await waitUntil("it has warned", () => warnings.messages.length > 0);
  assertEquals(warnings.messages, ["Cannot record locks, the recording has ended: full"]);
  const before = calls;
  await locks.request("n", () => {});
  assertEquals(calls, before);
});

Deno.test("recordLocks() that is disposed twice closes its file only once", () =>
  withFolder(async (dir) => {
    const recording = recordLocks({ file: `${dir}/a.jsonl` });
    await recording[Symbol.asyncDispose]();
    const others = Array.from({ length: 8 }, (_, i) => openSync(`${dir}/${i}`, "w"));
    await recording[Symbol.asyncDispose]();
    for (const fd of others) closeSync(fd);
  }));

Deno.test("recordLocks() and drawLocks() refuse bad arguments", async () => {
  assertThrows(() => recordLocks({}), TypeError, "either");
  assertThrows(() => recordLocks({ file: "a", write: () => {} }), TypeError, "either");
  assertThrows(() => recordLocks({ file: 1 as never }), TypeError, "'file'");
  assertThrows(() => recordLocks({ write: () => {}, process: "" }), RangeError, "'process'");
  assertThrows(() => recordLocks({ file: "/no/such/folder/a.jsonl" }), Error, "ENOENT");
  await assertRejects(() => drawLocks("a" as never), TypeError, "the files");
  await assertRejects(() => drawLocks([]), RangeError, "the files");
  await assertRejects(() => drawLocks(["a"], { from: 1 as never }), TypeError, "'from'");
  await assertRejects(() => drawLocks(["/no/such/file"]), Error, "ENOENT");
});

Deno.test("drawLocks() puts the files of several processes together, and shows what was waited for", () =>
  withFolder(async (dir) => {
    const files = [`${dir}/a.jsonl`, `${dir}/b.jsonl`];
    await Deno.writeTextFile(files[0]!, [startLine("import"), ...cycle(1, 10, 510)].join("\n"));
    // Its clock is 20 ms ahead: it was started 20 ms later by its own time, at the same moment.
    const waiter = [startLine("<b>web"), ...cycle(2, 511, 520, 480), '{"on":"grant","at":600,"ho'];
    await Deno.writeTextFile(files[1]!, waiter.join("\n"));
    const html = await drawLocks(files);
    assertMatch(
      html,
      /&#60;b&#62;web waited 480 ms for n, most of it behind import, which held it for 500 ms/,
    );
    assertEquals(html.split('class="handoff"').length - 1, 1);
    assertMatch(html, /Lines that are missing or cannot be read: 1\./);
    assertMatch(html, /^<!doctype html>[^]*default-src 'none'; style-src 'sha256-[\w+/=]{44}'/);
    assert(
      !/<script|<b>|(?:src|href)="(?!#)|url\(|@import|NaN|Infinity|undefined/.test(html),
      html,
    );
    for (const [, target] of html.matchAll(/href="#([^"]+)"/g)) {
      assert(html.includes(`id="${target}"`));
    }
  }));

Deno.test("drawLocks() says by how much clocks differ that the fencing tokens contradict", () =>
  withFolder(async (dir) => {
    const files = [`${dir}/a.jsonl`, `${dir}/b.jsonl`];
    await Deno.writeTextFile(files[0]!, [startLine("a"), ...cycle(1, 100, 200)].join("\n"));
    await Deno.writeTextFile(files[1]!, [startLine("b"), ...cycle(2, 40, 60)].join("\n"));
    assertMatch(await drawLocks(files), /clocks of a and b differ by 60\.0 ms at least/);
  }));

Deno.test("drawLocks() draws no handoff past shared leases", () =>
  withFolder(async (dir) => {
    const shared = cycle(2, 200, 300).map((line) =>
      JSON.stringify({ ...JSON.parse(line), mode: "shared" })
    );
    const file = `${dir}/a.jsonl`;
    const lines = [startLine("a"), ...cycle(1, 100, 190), ...shared, ...cycle(3, 310, 400, 150)];
    await Deno.writeTextFile(file, lines.join("\n"));
    assert(!(await drawLocks([file])).includes('class="handoff"'));
  }));

Deno.test("drawLocks() shows what was under way when a process was killed, and when it did not run", () =>
  withFolder(async (dir) => {
    const file = `${dir}/a.jsonl`;
    const [granted] = cycle(1, 10, 20);
    const clock = { on: "clock", at: 4_000, wallMs: WALL_MS + 4_000, blockedMs: 1_990 };
    await Deno.writeTextFile(file, [startLine("a"), granted, JSON.stringify(clock)].join("\n"));
    const html = await drawLocks([file]);
    assertMatch(html, /Calls without an end: 1\./);
    assertMatch(html, /held 3\.99 s/);
    assertMatch(html, /did not run for 1990 ms/);
  }));

Deno.test(`drawLocks() draws ${LINES.toLocaleString("en")} lines as a small page, and says what it leaves out`, () =>
  withFolder(async (dir) => {
    const file = `${dir}/a.jsonl`;
    const calls = LINES / 2;
    using out = Deno.openSync(file, { create: true, write: true });
    const put = (lines: string[]) =>
      out.writeSync(new TextEncoder().encode(`${lines.join("\n")}\n`));
    put([startLine("a")]);
    for (let i = 0; i < calls; i += 1_000) {
      put(
        Array.from({ length: 1_000 }, (_, j) => cycle(i + j, i + j, i + j + 0.9, 0, `n${i + j}`))
          .flat(),
      );
    }
    put(cycle(calls, calls, calls + 5, 700, "slow")); // the longest wait
    put(["no line", "x".repeat(200_000)]);
    const html = await drawIn64MB(file);
    assert(html.length < 2_000_000, `${html.length}`);
    assertMatch(html, new RegExp(`calls: ${calls + 1}\\.`));
    assertMatch(html, /The picture and the table have 1500 of them/);
    assertMatch(html, /a waited 700 ms for slow/);
    assertMatch(html, /Lines that are missing or cannot be read: 2\./);
    const cut = await drawLocks([file], { name: "n3", from: new Date(WALL_MS) });
    assertMatch(cut, /calls: 1\./);
    const none = await drawLocks([file], { to: new Date(WALL_MS - 1_000) });
    assertMatch(none, /No call of a lock was recorded/);
  }));

Deno.test("recordLocks() begins a line of its own behind the cut one of a process that was killed", () =>
  withFolder(async (dir) => {
    const file = `${dir}/a.jsonl`;
    await Deno.writeTextFile(file, `${startLine("killed")}\n{"on":"grant","at":6`);
    {
      await using _recording = recordLocks({ file, process: "next" });
      await using locks = new MemoryLock();
      await locks.request("n", () => {});
    }
    const html = await drawLocks([file]);
    assertMatch(html, /Recorded processes: 2\b/);
    assertMatch(html, /Lines that are missing or cannot be read: 1\./);
  }));

Deno.test("recordLocks() writes all lines into its file, readable for its owner only", () =>
  withFolder(async (dir) => {
    const file = `${dir}/a.jsonl`;
    const calls = 500;
    {
      await using _recording = recordLocks({ file });
      await using locks = new MemoryLock();
      await Promise.all(Array.from({ length: calls }, () => locks.request("n", () => {})));
    }
    const lines = Deno.readTextFileSync(file).trimEnd().split("\n");
    const read = lines.map((line): Recorded => JSON.parse(line));
    for (const on of ["grant", "release"]) {
      assertEquals(read.filter((line) => line.on === on).length, calls, on);
    }
    assertEquals(read.at(-1)!.on, "stop");
    if (Deno.build.os !== "windows") assertEquals(Deno.statSync(file).mode! & 0o777, 0o600);
    assertMatch(await drawLocks([file]), /calls: 500\./);
  }));

/** Records some leases and one that is held, and ends as the last line says. */
function program(end: string, leases = 100): string {
  return `import process from "node:process";
import { recordLocks } from ${JSON.stringify(import.meta.resolve("../../timeline/mod.ts"))};
import { MemoryLock } from ${JSON.stringify(import.meta.resolve("../../mod.ts"))};
recordLocks({ file: Deno.args[0], process: "p" });
const locks = new MemoryLock();
for (let i = 0; i < ${leases}; i++) await locks.request("n", () => {});
await locks.acquire("last");
${end}
`;
}

Deno.test("recordLocks() writes the rest when its process exits, and a recording of a killed one can be read", () =>
  withFolder(async (dir) => {
    for (const end of ["process.exit(0);", 'process.kill(process.pid, "SIGKILL");']) {
      const [script, file] = [`${dir}/p.ts`, `${dir}/${end.length}.jsonl`];
      await Deno.writeTextFile(script, program(end));
      await runCommand([...scriptCommand(new URL(`file://${script}`)), file], LONG_BOUND_MS);
      const html = await drawLocks([file]);
      if (end.includes("exit")) {
        assertMatch(html, /calls: 101\./);
        assertMatch(html, /Calls without an end: 1\./);
      } else assertMatch(html, /^<!doctype html>/);
    }
  }));

Deno.test({
  name: "recordLocks() on a full disk does not change how its process exits",
  ignore: Deno.build.os !== "linux",
  fn: () =>
    withFolder(async (dir) => {
      const script = `${dir}/p.ts`;
      await Deno.writeTextFile(
        script,
        program("process.exit(0);", 0),
      );
      const command = [...scriptCommand(new URL(`file://${script}`)), "/dev/full"];
      const { success, output } = await runCommand(command, LONG_BOUND_MS);
      assert(success, output);
    }),
});

Deno.test({
  name: "recordLocks() ends with a warning when the disk is full, and delays no lock",
  ignore: Deno.build.os !== "linux",
  async fn() {
    using warnings = collectWarnings();
    {
      await using _recording = recordLocks({ file: "/dev/full" });
      await using locks = new MemoryLock();
      await locks.request("n", () => {});
      await waitUntil("it has warned", () => warnings.messages.length > 0);
      await locks.request("n", () => {});
    }
    assertEquals(warnings.messages.length, 1);
    assertMatch(warnings.messages[0]!, /Cannot record locks, the recording has ended: ENOSPC/);
  },
});
