/**
 * Fencing tokens, and the file that remembers those of deleted lock files.
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { chooseFileSystem } from "../../file/system/choose.ts";
import type { FileSystem, OpenFile } from "../../file/system/port.ts";
import { TokenFile } from "../../file/tokens.ts";
import { temporary } from "../../testing/file/lock_directories.ts";

const fs = chooseFileSystem();

Deno.test("TokenFile.raise() raises the floor, and never lowers it", async () => {
  await using temp = await temporary();
  const tokens = new TokenFile(fs, `${temp.dir}/holdfast.tokens`, 0o600);
  assertEquals(tokens.read(), 0n);
  const steps = [[7n, 7n], [5n, 7n], [8n, 8n], [8n, 8n], [2n ** 63n, 2n ** 63n], [9n, 2n ** 63n]];
  for (const [token, floor] of steps) {
    assertEquals(tokens.raise(token!), floor);
    assertEquals(tokens.read(), floor);
    assertEquals(new TokenFile(fs, `${temp.dir}/holdfast.tokens`, 0o600).read(), floor);
  }
  assertEquals((await Deno.stat(`${temp.dir}/holdfast.tokens`)).mode! & 0o777, 0o600);
});

Deno.test("TokenFile.read() returns the floor before a write that was cut off at any byte", async () => {
  await using temp = await temporary();
  const path = `${temp.dir}/holdfast.tokens`;
  const tokens = new TokenFile(fs, path, 0o600);
  const floors = [1_795_216_967_916_034n, 1_795_216_967_999_999n, 1_795_216_968_000_001n];
  tokens.raise(floors[0]!);
  tokens.raise(floors[1]!);
  const before = await Deno.readFile(path);
  tokens.raise(floors[2]!);
  const after = await Deno.readFile(path);
  const changed = [...after.keys()].filter((i) => after[i] !== before[i]);
  assert(changed.length > 0);
  for (let count = 0; count <= 42; count++) {
    // The first bytes are those of the new write, the rest is as it was.
    const torn = after.slice();
    const first = changed[0]! < 512 ? 0 : 512;
    torn.set(before.subarray(first + count, first + 42), first + count);
    await Deno.writeFile(path, torn);
    const floor = tokens.read();
    assert(floor === floors[1] || floor === floors[2], `${floor} after ${count} bytes`);
    assertEquals(tokens.raise(floors[2]! + 5n), floors[2]! + 5n);
    assertEquals(tokens.read(), floors[2]! + 5n);
  }
});

Deno.test("TokenFile treats a damaged file as empty, and repairs it", async () => {
  await using temp = await temporary();
  const path = `${temp.dir}/holdfast.tokens`;
  const tokens = new TokenFile(fs, path, 0o600);
  for (const text of ["", "x".repeat(600), "1 1\n", `${"9".repeat(20)} ${"8".repeat(20)}\n`]) {
    await Deno.writeTextFile(path, text);
    assertEquals(tokens.read(), 0n);
    assertEquals(tokens.raise(42n), 42n);
    assertEquals(tokens.read(), 42n);
  }
});

Deno.test("TokenFile.raise() does not wait while another process raises the floor", async () => {
  await using temp = await temporary();
  const path = `${temp.dir}/holdfast.tokens`;
  const tokens = new TokenFile(fs, path, 0o600);
  tokens.raise(1n);
  using file = await Deno.open(path, { read: true, write: true });
  assert(file.tryLockSync(true));
  assertEquals(tokens.raise(2n), null);
  assertEquals(tokens.read(), 1n);
});

Deno.test("TokenFile follows no link", async () => {
  await using temp = await temporary();
  const [path, target] = [`${temp.dir}/holdfast.tokens`, `${temp.dir}/target`];
  await Deno.writeTextFile(target, "text of the target");
  const tokens = new TokenFile(fs, path, 0o600);
  for (const make of [Deno.symlink, Deno.link]) {
    await make(target, path);
    assertThrows(() => tokens.raise(1n));
    assertEquals(await Deno.readTextFile(target), "text of the target");
    await Deno.remove(path);
  }
});

Deno.test("TokenFile.next() is at least the wall clock, and greater than the previous token", async () => {
  await using temp = await temporary();
  const path = `${temp.dir}/holdfast.tokens`;
  const tokens = new TokenFile(fs, path, 0o600);
  const startUs = BigInt(Date.now()) * 1_000n;
  const token = tokens.next(0n);
  assert(startUs <= token && token < BigInt(Date.now() + 1) * 1_000n);
  assertEquals(tokens.read(), 0n);
  const ahead = startUs + 3_600_000_000n;
  assertEquals(tokens.next(ahead), ahead + 1n);
  assertEquals(tokens.next(ahead), ahead + 2n, "it was granted before");
  assertEquals(tokens.read(), ahead + 2n);
  using file = await Deno.open(path, { read: true, write: true });
  assert(file.tryLockSync(true));
  assertEquals(tokens.next(ahead + 7n), ahead + 8n, "while another process is stopped");
});

/** A file system whose files are opened with some methods replaced. */
function opening(replace: (file: OpenFile) => Partial<OpenFile>): FileSystem {
  return {
    ...fs,
    open(path, access) {
      const file = fs.open(path, access);
      const methods = replace(file);
      return new Proxy(file, {
        get: (target, key) => Reflect.get(methods, key) ?? Reflect.get(target, key).bind(target),
      });
    },
  };
}

Deno.test("TokenFile.read() reads until two reads agree, and one process raises the floor at a time", async () => {
  await using temp = await temporary();
  const path = `${temp.dir}/holdfast.tokens`;
  const tokens = new TokenFile(fs, path, 0o600);
  tokens.raise(7n);
  let reads = 0;
  const torn = opening((file) => ({
    read: (offset, bytes) => ++reads === 1 ? 0 : file.read(offset, bytes),
  }));
  assertEquals(new TokenFile(torn, path, 0o600).read(), 7n);
  assertEquals(reads, 3);
  const meanwhile: unknown[] = [];
  const slow = opening((file) => ({
    write(offset, bytes) {
      meanwhile.push(tokens.raise(99n));
      return file.write(offset, bytes);
    },
  }));
  assertEquals(new TokenFile(slow, path, 0o600).raise(50n), 50n);
  assertEquals([meanwhile, tokens.read()], [[null], 50n]);
  const replaced: FileSystem = { ...fs, lstat: (path) => ({ ...fs.lstat(path), ino: 1 }) };
  assertEquals(new TokenFile(replaced, path, 0o600).raise(60n), null);
  assertEquals(tokens.read(), 50n, "another file is there by now");
});

Deno.test("TokenFile keeps its format for processes of all versions, and grants no token twice in a µs", async () => {
  await using temp = await temporary();
  const path = `${temp.dir}/holdfast.tokens`;
  const tokens = new TokenFile(fs, path, 0o600);
  for (const token of [7n, 8n, 9n]) tokens.raise(token);
  const padded = (token: number) => String(token).padStart(20, "0");
  const slot = (token: number) => `${padded(token)} ${padded(token)}\n`;
  const text = await Deno.readTextFile(path);
  assertEquals([text.slice(0, 42), text.slice(512)], [slot(8), slot(9)]);
  tokens.raise(9n);
  assertEquals(await Deno.readTextFile(path), text, "a floor that stays is not written");
  const stopped = new TokenFile({ ...fs, wallUs: () => 100n }, path, 0o600);
  assertEquals([stopped.next(99n), stopped.next(100n)], [100n, 101n]);
});
