/**
 * The process behind {@linkcode race}: takes and releases locks, and deletes their files, as fast as
 * it can, until it is killed or its input ends.
 *
 * @module
 */
// Paces a workload: a holder sometimes keeps its lock for a moment.
import { setTimeout } from "node:timers/promises";
import { deleteUnused } from "../../file/deletion.ts";
import { lockPath } from "../../file/lock_directory.ts";
import { FileLock } from "../../file/mod.ts";
import { chooseFileSystem } from "../../file/system/choose.ts";
import { TokenFile } from "../../file/tokens.ts";
import { randomOf } from "../processes/random.ts";
import { inputEnd, print, scriptArgument } from "../runtime/processes.ts";
import type { RaceReport, RacerOptions } from "./race.ts";
import { Witness } from "./witness.ts";

const { dir, witnessDir, names, seed } = scriptArgument<RacerOptions>();
const random = randomOf(seed);
const fs = chooseFileSystem();
const tokens = new TokenFile(fs, `${dir}/holdfast.tokens`, 0o600);
let grants = 0;

function pick<T>(values: readonly T[]): T {
  return values[Math.floor(random() * values.length)]!;
}

function report(report: RaceReport): void {
  print(`${JSON.stringify(report)}\n`);
}

/** Deletes files at once, also those with a mark, which a `FileLock` keeps for some time. */
function deleteSome(): void {
  deleteUnused(fs, names.map((name) => lockPath(dir, name)), tokens, () => false);
}

async function takeOne(locks: FileLock, name: string): Promise<void> {
  const lease = random() < 0.5
    ? await locks.tryAcquire(name)
    : await locks.acquire(name, { signal: AbortSignal.timeout(200) }).catch(() => null);
  if (lease === null) return;
  const witness = new Witness(`${witnessDir}/${name}`);
  const violation = witness.enter(lease.fencingToken);
  if (violation !== null) report({ violation: `${name}: ${violation}` });
  if (random() < 0.2) await setTimeout(random() * 2);
  if (violation === null) witness.leave();
  if (!await lease.release()) report({ violation: `${name}: the lease was lost` });
  if (++grants % 10 === 0) report({ grants: 10 });
}

async function race(isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    const locks = new FileLock({ dir, pollIntervalMs: 1 });
    for (let i = 0; i < 20 && !isOver(); i++) {
      if (random() < 0.5) deleteSome();
      if (random() < 0.1) await locks.query(pick(names));
      await takeOne(locks, pick(names));
    }
    await locks[Symbol.asyncDispose](); // Not by `await using`, which Node 22 lacks.
  }
}

let isOver = false;
inputEnd().then(() => isOver = true);
await race(() => isOver);
