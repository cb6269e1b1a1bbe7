/**
 * The process of one suite, so that garbage of one does not slow down the next. Arguments: the name of the
 * suite, its options as JSON, and the file for its result.
 *
 * @module
 */
import { writeFile } from "node:fs/promises";
import process from "node:process";
import { showProgress } from "./library/progress.ts";
import type { SuiteOptions } from "./library/suite.ts";
import { SUITES } from "./suites/all.ts";

async function main([name, options, file]: string[]): Promise<void> {
  const suite = SUITES.find((each) => each.name === name)!;
  const progress = showProgress(suite.name);
  const result = await suite.measure({ options: JSON.parse(options!) as SuiteOptions, progress });
  progress.done();
  await writeFile(file!, JSON.stringify(result));
}

if (import.meta.main) {
  // Some packages do not handle rejections of their own; a suite reports what it cannot measure.
  globalThis.addEventListener("unhandledrejection", (event) => event.preventDefault());
  await main(process.argv.slice(2));
  Deno.exit(0); // connections of some packages are still open
}
