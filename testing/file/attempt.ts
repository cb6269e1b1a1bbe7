/**
 * The process behind {@linkcode attempt}: makes one call of a `FileLock` and prints the result.
 *
 * @module
 */
import { openSync, readdirSync } from "node:fs";
import process from "node:process";
import type { LockError } from "../../core/contract/errors.ts";
import { FileLock } from "../../file/mod.ts";
import { print } from "../runtime/processes.ts";
import type { Attempt, Outcome } from "./attempts.ts";

const { options, call, name, without, openFiles } = JSON.parse(process.argv[2]!) as Attempt;

/** Opens files until the process may open no more, at most this many. */
function openUpTo(count: number): void {
  try {
    for (let i = 0; i < count; i++) openSync("/dev/null", "r");
  } catch {
    // The limit is reached.
  }
}

async function outcome(): Promise<Outcome> {
  // As on a runtime that has no such API.
  if (without === "Deno") Reflect.deleteProperty(globalThis, "Deno");
  const startMs = performance.now();
  let locks: FileLock | undefined;
  try {
    locks = new FileLock(options);
    openUpTo(openFiles);
    if (call === "query") return { result: JSON.stringify((await locks.query(name)).holders) };
    const lease = await locks[call](name);
    await locks[Symbol.asyncDispose]();
    return { result: lease === null ? "null" : "granted" };
  } catch (error) {
    const { code } = error as LockError;
    const { message, name: errorName } = error as Error;
    const afterMs = performance.now() - startMs;
    await locks?.[Symbol.asyncDispose]();
    return { result: errorName, code, message, afterMs, files: filesIn(options.dir) };
  }
}

function filesIn(dir = ""): string[] {
  try {
    return readdirSync(dir);
  } catch {
    return [];
  }
}

print(`${JSON.stringify(await outcome())}\n`);
