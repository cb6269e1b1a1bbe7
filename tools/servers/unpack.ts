/**
 * Unpacks Debian packages beside the system, and makes programs of them startable: a wrapper script
 * starts the program with its own loader and its own libraries.
 *
 * @module
 */
import { existsSync } from "node:fs";
import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { runCommand } from "../../testing/servers/command.ts";

const UNPACK_BOUND_MS = 120_000;
const EXECUTABLE = 0o755;

/**
 * Unpacks package files into a new folder; replaces the folder if it exists.
 *
 * @throws {Error} If a file cannot be unpacked.
 */
export async function unpack(files: readonly string[], folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  for (const file of files) {
    const { success, output } = await runCommand(["dpkg-deb", "-x", file, folder], UNPACK_BOUND_MS);
    if (!success) throw new Error(`Cannot unpack ${file}: ${output.trim()}`);
  }
}

/**
 * Writes a script that starts a program of an unpacked system.
 *
 * @param root The unpacked system; an absolute path.
 * @param name The name of a program in its `usr/bin`.
 * @param path The script to write.
 * @throws {Error} If the system lacks the program or a loader.
 */
export async function writeWrapper(root: string, name: string, path: string): Promise<void> {
  const program = `${root}/usr/bin/${name}`;
  if (!existsSync(program)) throw new Error(`Cannot find ${program} in the packages`);
  await writeFile(path, wrapperText(await libraryFolder(root), program, name), {
    mode: EXECUTABLE,
  });
}

interface Libraries {
  readonly folder: string;
  readonly loader: string;
}

/** The folder of the libraries: `usr/lib/` and the name of the architecture. The loader is in it. */
async function libraryFolder(root: string): Promise<Libraries> {
  for (const name of await readdir(`${root}/usr/lib`)) {
    const folder = `${root}/usr/lib/${name}`;
    const files = name.includes("-linux-gnu") ? await readdir(folder) : [];
    const loader = files.find((file) => /^ld(-linux.*|64)\.so\.\d$/.test(file));
    if (loader !== undefined) return { folder, loader: `${folder}/${loader}` };
  }
  throw new Error(`Cannot find a loader in ${root}/usr/lib: is the package libc6 unpacked?`);
}

/** The program sees its own name: Redis decides by it what it does. */
function wrapperText({ folder, loader }: Libraries, program: string, name: string): string {
  const start = [loader, "--argv0", name, "--library-path", folder, program];
  return `#!/bin/sh\nexec ${start.map(quoted).join(" ")} "$@"\n`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
