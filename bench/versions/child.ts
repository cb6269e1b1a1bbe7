/**
 * The process of one version: reads a job per line and prints an answer per line.
 *
 * @module
 */
import { createInterface } from "node:readline";
import process from "node:process";
import { recordPaths } from "./call_paths.ts";
import { countOperations } from "./counts.ts";
import { measureCycles } from "./cycles.ts";
import type { Answers, Job, Reply } from "./jobs.ts";
import { loadVersion, type Version } from "./version.ts";

type Perform = (job: Job) => Promise<Answers[keyof Answers]>;

/** All rounds of cycles use one instance, which is warm after the first ones. */
async function performer(version: Version): Promise<Perform> {
  const lock = version.lock(await version.port());
  return (job) => {
    switch (job.kind) {
      case "counts":
        return countOperations(version);
      case "paths":
        return recordPaths(version);
      case "cycles":
        return measureCycles(lock, job.workload);
    }
  };
}

async function main(): Promise<void> {
  await using version = await loadVersion(JSON.parse(Deno.args[0]!));
  const perform = await performer(version);
  for await (const line of createInterface({ input: process.stdin })) {
    const reply: Reply = await perform(JSON.parse(line)).then(
      (answer) => ({ answer }),
      (error) => ({ error: error instanceof Error ? error.stack ?? error.message : String(error) }),
    );
    process.stdout.write(`${JSON.stringify(reply)}\n`);
  }
}

if (import.meta.main) await main();
