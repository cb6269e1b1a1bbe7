/**
 * The incident of OpenCTI's issue 17341, replayed on Redis: many workers of several processes change one entity,
 * which an import holds for long. It records all processes, and draws them as one page.
 *
 * @module
 */

// deno-lint-ignore-file no-console -- this is a command

import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { openLock } from "../open/mod.ts";
import { drawLocks, recordLocks } from "../timeline/mod.ts";

const ENTITY = "entity:7";
const PROCESSES = numberOf("PROCESSES", 4);
const WORKERS = numberOf("WORKERS", 16);
const HOLD_MS = numberOf("HOLD_MS", 1_500);
const USAGE = `Usage: deno run -A examples/incident.ts URL [FOLDER]

Four processes with 16 workers each want ${ENTITY} on the Redis at URL, while an import holds it. Writes the
recordings, and incident.html, into the folder.

Environment: PROCESSES, WORKERS (of each), HOLD_MS (of the import, once all wait)`;

async function main([url, folder, role]: readonly string[]): Promise<void> {
  if (url === undefined || url === "--help") return console.log(USAGE);
  if (role !== undefined) return await work(url, folder!, role);
  const dir = folder ?? await mkdtemp(`${tmpdir()}/holdfast-incident-`);
  await mkdir(dir, { recursive: true });
  const roles = [
    "bulk-import",
    ...Array.from({ length: PROCESSES }, (_, i) => `worker-${i + 1}`),
  ];
  await Promise.all(roles.map((role) => start(url, dir, role)));
  const html = await drawLocks(roles.map((role) => fileOf(dir, role)));
  await writeFile(`${dir}/incident.html`, html);
  console.log(`The picture is in ${dir}/incident.html`);
}

/** Runs a process of the incident until its end. */
async function start(url: string, dir: string, role: string): Promise<void> {
  const { success, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", import.meta.filename!, url, dir, role],
    stdout: "inherit",
    stderr: "piped",
  }).output();
  if (!success) throw new Error(`${role} has failed: ${new TextDecoder().decode(stderr)}`);
}

/** One process: the import, which holds the entity for long, or workers, which need it for a moment. */
async function work(url: string, dir: string, role: string): Promise<void> {
  await using _recording = recordLocks({ file: fileOf(dir, role), process: role });
  await using locks = await openLock(url, { label: role });
  if (role === "bulk-import") {
    return await locks.request(ENTITY, async () => {
      while ((await locks.query(ENTITY)).waiterCount < PROCESSES * WORKERS) await pause(50);
      await pause(HOLD_MS);
    });
  }
  // The import has the lock already.
  while ((await locks.query(ENTITY)).holderCount === 0) await pause(10);
  const change = () => locks.request(ENTITY, () => pause(4));
  await Promise.all(Array.from({ length: WORKERS }, change));
}

function fileOf(dir: string, role: string): string {
  return `${dir}/${role}.jsonl`;
}

function numberOf(name: string, otherwise: number): number {
  return Number(Deno.env.get(name) ?? otherwise);
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

if (import.meta.main) await main(Deno.args);
