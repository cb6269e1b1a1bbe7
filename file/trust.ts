import { dirname, isAbsolute, join } from "node:path";
import { isForbidden, SetupFailure } from "./failures.ts";
import { PRIVATE_MODE } from "./regular_file.ts";
import type { FileInfo, FileSystem } from "./system/port.ts";

const WRITABLE_BY_OTHERS = 0o022;
/** Only the owner of an entry may remove it, as in `/tmp`. */
const STICKY = 0o1000;
const ROOT = 0;
const ROOT_DIR = "/";
/** As many as Linux follows. */
const MAX_LINKS = 40;

const REMEDY = "choose another 'dir', or pass 'sharedDir: true' if everybody who may write there " +
  "may break its locks";

/**
 * Checks that nobody but this user and root may write to a directory, or replace it or one above it: a user that can
 * replace a lock file can break its lock, and can make a process write to another file. Throws a
 * {@linkcode SetupFailure} if others may, or if it is a link or no directory; else returns what it has checked.
 */
export function checkTrusted(fs: FileSystem, dir: string): FileInfo {
  const info = fs.lstat(dir);
  if (info.isSymlink) throw new SetupFailure(`the directory ${quote(dir)} is a link: ${REMEDY}`);
  if (!info.isDirectory) {
    throw new SetupFailure(`${quote(dir)} is not a directory: choose another 'dir'`);
  }
  const isOurs = ownership(fs, dir);
  if (!isOurs(info)) refuseOwner(dir, info);
  if (isWritableByOthers(info)) {
    const mode = (info.mode! & 0o777).toString(8);
    throw new SetupFailure(
      `the directory ${quote(dir)} can be written to by other users (mode ${mode}): ` +
        `set its mode to 700, ${REMEDY}`,
    );
  }
  checkAbove(fs, dir, isOurs);
  // Links that the runtime does not permit to look at lead there, too.
  const realDir = fs.realPath(dir);
  if (realDir !== dir) checkAbove(fs, realDir, isOurs);
  return info;
}

/**
 * Checks the directories above one, and the links on the way to it with all that leads to their targets, as far
 * as the runtime permits it: a process that may read only the directory of the lock files would otherwise need
 * the permission to read everything around it.
 */
function checkAbove(fs: FileSystem, dir: string, isOurs: (info: FileInfo) => boolean): void {
  /** Without links, so that `..` leads to the directory above. */
  let reached = ROOT_DIR;
  let links = 0;
  // The first name is empty: that of the root.
  const names = dirname(dir).split("/");
  for (let name = names.shift(); name !== undefined; name = names.shift()) {
    const path = join(reached, name);
    const target = checkEntry(fs, path, isOurs);
    if (target === null) {
      reached = path;
      continue;
    }
    if (++links > MAX_LINKS) {
      throw new SetupFailure(`too many links lead to ${quote(dir)}: choose another 'dir'`);
    }
    if (isAbsolute(target)) reached = ROOT_DIR;
    names.unshift(...target.split("/"));
  }
}

/** Returns the target of a link. `null` if it is none, or if the runtime does not permit to look. */
function checkEntry(
  fs: FileSystem,
  path: string,
  isOurs: (info: FileInfo) => boolean,
): string | null {
  const info = infoIfPermitted(fs, path);
  if (info === null) return null;
  if (!isOurs(info) && !isOwnerOfAll(fs, info)) refuseOwner(path, info);
  if (info.isSymlink) return fs.readLink(path);
  if (!isWritableByOthers(info) || (info.mode! & STICKY) !== 0) return null;
  throw new SetupFailure(
    `other users may write to ${quote(path)}, and so replace the directory of the lock files: ` +
      `take that permission away, ${REMEDY}`,
  );
}

function infoIfPermitted(fs: FileSystem, path: string): FileInfo | null {
  try {
    return fs.lstat(path);
  } catch (error) {
    if (isForbidden(error)) return null;
    throw error;
  }
}

function refuseOwner(path: string, { uid }: FileInfo): never {
  throw new SetupFailure(`${quote(path)} belongs to another user (${uid}): ${REMEDY}`);
}

function isWritableByOthers({ mode }: FileInfo): boolean {
  return (mode! & WRITABLE_BY_OTHERS) !== 0;
}

/** Returns a function that tells whether this user or root owns a file. Asks who this user is when needed. */
function ownership(fs: FileSystem, dir: string): (info: FileInfo) => boolean {
  let user: number | null | undefined;
  return ({ uid }) => uid === ROOT || uid === (user ??= ownUid(fs, dir));
}

/** Without `--allow-sys=uid` the owner of a new file tells it. */
function ownUid(fs: FileSystem, dir: string): number | null {
  try {
    return fs.uid();
  } catch {
    const path = join(dir, `${crypto.randomUUID()}.owner`);
    const file = fs.create(path, PRIVATE_MODE);
    try {
      fs.unlink(path);
      return file.stat().uid;
    } finally {
      file.close();
    }
  }
}

/** In a container without root, the host's root has another number: the owner of `/`. */
function isOwnerOfAll(fs: FileSystem, { uid }: FileInfo): boolean {
  return uid === fs.lstat(ROOT_DIR).uid;
}

function quote(path: string): string {
  return JSON.stringify(path);
}
