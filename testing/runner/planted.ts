/**
 * Runs `deno task test` on small test files, for tests of the runner.
 *
 * @module
 */
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { makeTempDirectory } from "../runtime/temporary_files.ts";
import { scriptCommand, type SpawnedProcess, spawnProcess } from "../runtime/processes.ts";

const RUNNER = new URL("./main.ts", import.meta.url);

/** The outcome of a run. */
export interface PlantedRun {
  readonly code: number;
  /** The lines of its standard output. */
  readonly lines: readonly string[];
  readonly lastLine: string | undefined;
  readonly errors: string;
  /** The text of its log file; empty if it wrote none. */
  readonly log: string;
}

/** A temporary folder with test files. */
export interface Planted extends AsyncDisposable {
  readonly folder: string;
  /** Starts a run of these files, or of others below the folder. */
  start(args?: readonly string[], files?: readonly string[]): SpawnedProcess;
  /** The same, and waits for its end. */
  run(args?: readonly string[], files?: readonly string[]): Promise<PlantedRun>;
}

/**
 * Writes test files.
 *
 * @param texts By name. In JavaScript, because the check of types takes most of the time.
 */
export async function plant(texts: Readonly<Record<string, string>>): Promise<Planted> {
  const folder = await makeTempDirectory();
  await mkdir(`${folder}/tmp`);
  for (const [name, text] of Object.entries(texts)) {
    await mkdir(`${folder}/${name}`.replace(/\/[^/]*$/, ""), { recursive: true });
    await writeFile(`${folder}/${name}`, text);
  }
  const start = (args: readonly string[] = [], files: readonly string[] = Object.keys(texts)) =>
    spawnProcess([...scriptCommand(RUNNER), ...args, ...files.map((name) => `${folder}/${name}`)], {
      // The log file goes to the folder, too.
      env: { TMPDIR: `${folder}/tmp`, NO_COLOR: "1" },
      stdout: "pipe",
      stderr: "pipe",
    });
  return {
    folder,
    start,
    async run(args, files) {
      const child = start(args, files);
      const [output, errors] = await Promise.all([text(child.stdout!), text(child.stderr!)]);
      const { code } = await child.ended;
      const lines = output.trimEnd().split("\n");
      const path = lines.findLast((line) => line.startsWith("Log: "))?.slice("Log: ".length);
      const log = path === undefined ? "" : await readFile(path, "utf8");
      return { code, lines, lastLine: lines.at(-1), errors, log };
    },
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true }),
  };
}
