/**
 * The changes that the runtime reports of the files in a directory.
 */
import { assertEquals } from "@std/assert";
import { DirectoryChanges } from "../../file/directory_changes.ts";
import { denoFileSystem } from "../../file/system/deno.ts";
import { type Inotify, watchBy } from "../../file/system/inotify.ts";
import type { DirectoryListener } from "../../file/system/port.ts";
import { settle } from "../../testing/core/fake_clock.ts";
import { temporary } from "../../testing/file/lock_directories.ts";
import { watchable, withoutWatches } from "../../testing/file/watching.ts";
import { waitUntil } from "../../testing/servers/wait.ts";

const { watch } = denoFileSystem(Deno.version.deno);
const isLinux = Deno.build.os === "linux";
const note = isLinux ? "" : " (skipped: this needs Linux)";

/** Lists what it is notified of. */
class Notes implements DirectoryListener {
  readonly list: string[] = [];

  onChange(fileName: string): void {
    this.list.push(fileName);
  }

  onAnyChange(): void {
    this.list.push("any");
  }

  onEnd(): void {
    this.list.push("end");
  }
}

Deno.test({
  name: `FileSystem.watch() reports closed, removed and renamed files, and no reading${note}`,
  ignore: !isLinux,
  async fn() {
    await using temp = await temporary();
    await watchable(temp.dir);
    Deno.mkdirSync(`${temp.dir}/below`);
    const notes = new Notes();
    const running = watch(temp.dir, notes)!;
    /** The system reports in order: what it has not reported before a mark, it does not report. */
    const seen = async (expected: string[], mark: string) => {
      Deno.openSync(`${temp.dir}/${mark}`, { write: true, create: true }).close();
      await waitUntil("the mark is reported", () => notes.list.includes(mark));
      const before = notes.list.slice(0, notes.list.indexOf(mark));
      assertEquals(
        [...new Set(before)].filter((name) => !name.startsWith("mark")).sort(),
        expected,
      );
      notes.list.length = 0;
    };
    const file = Deno.openSync(`${temp.dir}/a`, { read: true, write: true, createNew: true });
    file.writeSync(new Uint8Array(1));
    Deno.writeTextFileSync(`${temp.dir}/below/inner`, "");
    await seen([], "mark-1");
    file.close();
    await seen(["a"], "mark-2");
    Deno.openSync(`${temp.dir}/a`).close();
    Deno.readFileSync(`${temp.dir}/a`);
    await seen([], "mark-3");
    Deno.renameSync(`${temp.dir}/a`, `${temp.dir}/b`);
    await seen(["a", "b"], "mark-4");
    Deno.removeSync(`${temp.dir}/b`);
    await seen(["b"], "mark-5");
    running();
    running();
    const others = new Notes();
    const other = watch(temp.dir, others)!;
    await Deno.writeTextFile(`${temp.dir}/c`, "");
    await waitUntil("another watch reports it", () => others.list.includes("c"));
    other();
    assertEquals(notes.list, [], "after its end it reports nothing");
  },
});

Deno.test({
  name: `FileSystem.watch() reports that any file may have changed when it missed changes${note}`,
  ignore: !isLinux,
  async fn() {
    await using temp = await temporary();
    await watchable(temp.dir);
    const notes = new Notes();
    const running = watch(temp.dir, notes)!;
    for (let i = 0; i < 20_000; i++) {
      Deno.openSync(`${temp.dir}/${i % 64}`, { write: true, create: true }).close();
    }
    await waitUntil("it reports the gap", () => notes.list.includes("any"));
    running();
  },
});

Deno.test({
  name: `FileSystem.watch() lets a process end, and tells if the runtime gives it up${note}`,
  ignore: !isLinux,
  async fn() {
    const { watchFs } = Deno;
    try {
      for (const isBroken of [false, true]) {
        const calls: string[] = [];
        const watcher = {
          next() {
            calls.push("next");
            if (isBroken) return Promise.reject(new Error("made by a test"));
            return Promise.resolve({ done: true, value: undefined });
          },
          unref: () => void calls.push("unref"),
          close: () => void calls.push("close"),
        };
        Deno.watchFs = () => watcher as unknown as Deno.FsWatcher;
        const notes = new Notes();
        watch("/locks", notes);
        await settle();
        assertEquals([calls, notes.list], [["next", "unref", "close"], ["end"]]);
      }
    } finally {
      Deno.watchFs = watchFs;
    }
  },
});

Deno.test("FileSystem.watch() returns null when the system refuses", async () => {
  await using temp = await temporary();
  assertEquals(watch(`${temp.dir}/missing`, new Notes()), null);
  using _no = withoutWatches();
  assertEquals(watch(temp.dir, new Notes()), null);
});

Deno.test("DirectoryChanges ends its watch when nobody has waited for a while, also after a wait that began meanwhile", async () => {
  await using temp = await temporary();
  const { stat } = denoFileSystem(Deno.version.deno);
  let ends = 0;
  const changes = new DirectoryChanges({ stat, watch: () => () => void ends++ }, 10);
  const { signal } = new AbortController();
  const first = changes.enter(`${temp.dir}/a`);
  await changes.next(first, "held", signal);
  assertEquals(changes.isWatched, true);
  changes.leave(first);
  const leftMs = performance.now();
  const second = changes.enter(`${temp.dir}/a`);
  await waitUntil("the watch would have ended", () => performance.now() - leftMs > 1_500);
  assertEquals([changes.isWatched, ends], [true, 0], "somebody waits");
  changes.leave(second);
  await waitUntil("the watch ends", () => !changes.isWatched);
  assertEquals(ends, 1);
});

/** The bytes of events of inotify: four numbers, and the name, filled up with zeros. */
function eventsOf(...events: readonly (readonly [mask: number, name: string])[]): Uint8Array {
  const parts = events.map(([mask, name]) => {
    const length = name === "" ? 0 : 16;
    const bytes = new Uint8Array(16 + length);
    new Uint32Array(bytes.buffer, 0, 4).set([1, mask, 0, length]);
    bytes.set(new TextEncoder().encode(name), 16);
    return [...bytes];
  });
  return new Uint8Array(parts.flat());
}

Deno.test("watchBy() reports the events of inotify until its end, and closes what it has opened, once", () => {
  const [closed, deleted] = [0x8, 0x200];
  const [moved, overflow, ignored] = [0x800, 0x4000, 0x8000];
  const opened: { onEvents(bytes: Uint8Array): void; onEnd(): void }[] = [];
  let closes = 0;
  const inotify = (watch: number): Inotify => ({
    open(onEvents, onEnd) {
      opened.push({ onEvents, onEnd });
      return { fd: 7, close: () => void closes++ };
    },
    addWatch: () => watch,
  });
  const notes = new Notes();
  assertEquals(watchBy(inotify(-1), "/locks", notes), null);
  assertEquals(closes, 1, "the system has refused the watch");
  const running = watchBy(inotify(1), "/locks", notes)!;
  opened[1]!.onEvents(eventsOf([closed, "a"], [overflow, ""], [deleted, "bcd"]));
  assertEquals(notes.list, ["a", "any", "bcd"]);
  notes.list.length = 0;
  opened[1]!.onEvents(eventsOf([moved, ""], [ignored, ""], [closed, "a"]));
  assertEquals(notes.list, ["any", "any", "a"]);
  opened[1]!.onEnd();
  opened[1]!.onEnd();
  opened[1]!.onEvents(eventsOf([closed, "late"]));
  running();
  assertEquals([notes.list, closes], [["any", "any", "a", "end"], 1]);
  const seen: string[] = [];
  const once: () => void = watchBy(inotify(1), "/locks", {
    onChange(name) {
      seen.push(name);
      once();
    },
    onAnyChange: () => void seen.push("any"),
    onEnd: () => void seen.push("end"),
  })!;
  opened[2]!.onEvents(eventsOf([closed, "a"], [closed, "b"]));
  opened[2]!.onEnd();
  once();
  assertEquals([seen, closes], [["a"], 2]);
});
