/**
 * Checks who may write to a directory, or replace it. A user that can replace a lock file can break
 * its lock, and can make a process write to another file.
 *
 * @module
 */
import { dirname, join } from "node:path";
import { SetupFault } from "./faults.ts";
import { PRIVATE_MODE } from "./regular_file.ts";

const WRITABLE_BY_OTHERS = 0o022;
/** Only the owner of an entry may remove it, as in `/tmp`. */
const STICKY = 0o1000;
const ROOT = 0;

/** The advice at the end of a refusal. */
const REMEDY = "choose another 'dir', or pass 'sharedDir: true' if everybody who may write there " +
  "may break its locks";

/**
 * Checks that nobody but this user and root may write to a directory, or replace it or one above it.
 *
 * @param dir Its absolute path.
 * @throws {SetupFault} If others may, or if it is a link or no directory.
 * @throws {Error} If the file system or Deno does not let us look.
 */
export function checkTrusted(dir: string): void {
  const info = Deno.lstatSync(dir);
  if (info.isSymlink) throw new SetupFault(`the directory ${quote(dir)} is a link: ${REMEDY}`);
  if (!info.isDirectory) throw new SetupFault(`${quote(dir)} is not a directory: ${REMEDY}`);
  if (Deno.build.os === "windows") return; // It has neither modes nor numbers of owners.
  const us = new Users(dir);
  if (!us.owns(info)) refuseOwner(dir, info);
  if (isWritableByOthers(info)) {
    const mode = (info.mode! & 0o777).toString(8);
    throw new SetupFault(
      `the directory ${quote(dir)} can be written to by other users (mode ${mode}): ` +
        `set its mode to 700, ${REMEDY}`,
    );
  }
  checkAbove(dir, us);
  // A directory above may be a link. Then its target counts as well.
  const realDir = Deno.realPathSync(dir);
  if (realDir !== dir) checkAbove(realDir, us);
}

/**
 * Checks the directories above one, as far as Deno permits it: a process that may read only the
 * directory of the lock files would otherwise need the permission to read everything around it.
 */
function checkAbove(dir: string, us: Users): void {
  for (let path = dirname(dir), below = dir; path !== below; below = path, path = dirname(path)) {
    try {
      checkEntry(path, us);
    } catch (error) {
      if (error instanceof Deno.errors.NotCapable) return;
      throw error;
    }
  }
}

function checkEntry(path: string, us: Users): void {
  const info = Deno.lstatSync(path);
  if (!us.owns(info) && !isOwnerOfAll(info)) refuseOwner(path, info);
  if (info.isSymlink || !isWritableByOthers(info) || (info.mode! & STICKY) !== 0) return;
  throw new SetupFault(
    `other users may write to ${quote(path)}, and so replace the directory of the lock files: ` +
      `take that permission away, ${REMEDY}`,
  );
}

function refuseOwner(path: string, { uid }: Deno.FileInfo): never {
  throw new SetupFault(`${quote(path)} belongs to another user (${uid}): ${REMEDY}`);
}

function isWritableByOthers({ mode }: Deno.FileInfo): boolean {
  return (mode! & WRITABLE_BY_OTHERS) !== 0;
}

/** This user and root. */
class Users {
  readonly #dir: string;
  #uid: number | null | undefined;

  /** @param dir The directory of the lock files. */
  constructor(dir: string) {
    this.#dir = dir;
  }

  owns({ uid }: Deno.FileInfo): boolean {
    return uid === ROOT || uid === (this.#uid ??= ownUid(this.#dir));
  }
}

/** Without `--allow-sys=uid` the owner of a new file tells it. */
function ownUid(dir: string): number | null {
  try {
    return Deno.uid();
  } catch (error) {
    if (!(error instanceof Deno.errors.NotCapable)) throw error;
    const path = join(dir, `${crypto.randomUUID()}.owner`);
    using file = Deno.openSync(path, { write: true, createNew: true, mode: PRIVATE_MODE });
    Deno.removeSync(path);
    return file.statSync().uid;
  }
}

/** In a container without root, the host's root has another number: the owner of `/`. */
function isOwnerOfAll({ uid }: Deno.FileInfo): boolean {
  return uid === Deno.lstatSync("/").uid;
}

function quote(path: string): string {
  return JSON.stringify(path);
}
