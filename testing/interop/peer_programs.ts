/**
 * Finds and installs the lock libraries that we are tested with: Curator for Java, kazoo for Python.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { basename } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { filledFolder } from "../npm/cache.ts";
import { runCommand } from "../servers/command.ts";
import { installWithApt } from "../servers/find_apt.ts";
import { CONDITION_BOUND_MS } from "../time.ts";
import { programPaths } from "../servers/find_local.ts";

const PROBE_BOUND_MS = CONDITION_BOUND_MS;
const PROGRAMS_VARIABLE = "HOLDFAST_INTEROP_PROGRAMS";
/** The manifest of each jar file names the jar files that it needs. */
const CURATOR_CLASS_PATH = "/usr/share/java/curator-recipes.jar:/usr/share/java/slf4j-nop.jar";
const JAVA_FLAGS = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];

/** Another library. */
export type Library = "curator" | "kazoo";

/** The program that contends with a library's lock. */
export interface Program {
  /** Its command line without the arguments; left out if the library is missing. */
  readonly command?: readonly string[];
  /** One line that describes what was found, or what is missing. */
  readonly line: string;
}

/** The program of each library. */
export type Programs = Readonly<Record<Library, Program>>;

const TITLES: Readonly<Record<Library, string>> = { curator: "Curator", kazoo: "kazoo" };
const NEEDS: Readonly<Record<Library, string>> = {
  curator: "a JDK, and Curator's jar files (Debian and Ubuntu: apt-get install " +
    "default-jdk-headless libcurator-recipes-java)",
  kazoo: "kazoo for a python3 (Debian and Ubuntu: apt-get install python3-kazoo)",
};

/**
 * Looks for both libraries, installs missing ones if possible, and passes the result to child
 * processes.
 */
export async function preparePrograms(): Promise<Programs> {
  let found = await findPrograms();
  const missing = (Object.keys(found) as Library[]).filter((name) => !found[name].command);
  if (missing.length > 0) {
    const title = missing.map((name) => TITLES[name]).join(" and ");
    if (await installWithApt(title, missing.flatMap(packagesOf))) found = await findPrograms();
  }
  process.env[PROGRAMS_VARIABLE] = JSON.stringify(found);
  return found;
}

/**
 * Returns the programs that the test runner has found. Without a runner it looks, but installs
 * nothing.
 */
export async function programs(): Promise<Programs> {
  const given = process.env[PROGRAMS_VARIABLE];
  return given ? JSON.parse(given) as Programs : await findPrograms();
}

async function findPrograms(): Promise<Programs> {
  const file = (name: string) => fileURLToPath(new URL(name, import.meta.url));
  const javaHome = process.env["JAVA_HOME"];
  const javas = [...javaHome ? [`${javaHome}/bin/java`] : [], ...programPaths("java")];
  // Only the system's own Python finds Debian's packages.
  const pythons = new Set(["/usr/bin/python3", ...programPaths("python3")]);
  const [curator, kazoo] = await Promise.all([
    firstThatRuns("curator", await compiled(javas, file("CuratorContender.java"))),
    firstThatRuns("kazoo", [...pythons].map((path) => [path, file("kazoo_contender.py")])),
  ]);
  return { curator, kazoo };
}

/** Compiles a program, once for each Java that can: from its source it would take ten times as long to start. */
async function compiled(javas: readonly string[], source: string): Promise<string[][]> {
  const text = await readFile(source);
  const commands = await Promise.all(javas.map(async (java) => {
    const digest = createHash("sha256").update(java).update(text).digest("hex");
    const compile = async (folder: string) => {
      const command = [`${java}c`, "-cp", CURATOR_CLASS_PATH, "-d", folder, source];
      const { success, output } = await runCommand(command, PROBE_BOUND_MS);
      if (!success) throw new Error(output);
    };
    const classes = await filledFolder(`classes/${digest}`, compile).catch(() => null);
    const path = `${CURATOR_CLASS_PATH}:${classes}`;
    return classes === null ? [] : [[java, ...JAVA_FLAGS, "-cp", path, basename(source, ".java")]];
  }));
  return commands.flat();
}

async function firstThatRuns(library: Library, commands: readonly string[][]): Promise<Program> {
  for (const command of commands) {
    const { success, output } = await runCommand([...command, "--version"], PROBE_BOUND_MS);
    if (success) return { command, line: `${output.trim()} with ${command[0]}` };
  }
  return { line: `${TITLES[library]} is missing: install ${NEEDS[library]}` };
}

function packagesOf(library: Library): string[] {
  if (library === "kazoo") return ["python3-kazoo"];
  // A runtime alone cannot compile.
  const jdk = programPaths("javac").length > 0 ? [] : ["default-jdk-headless"];
  return [...jdk, "libcurator-recipes-java"];
}
