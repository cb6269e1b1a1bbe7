/** Information about a file. `null` where the system does not have it. */
export interface FileInfo {
  readonly isFile: boolean;
  readonly isDirectory: boolean;
  readonly isSymlink: boolean;
  readonly size: number;
  readonly mtime: Date | null;
  readonly birthtime: Date | null;
  readonly mode: number | null;
  readonly uid: number | null;
  readonly nlink: number | null;
  /** The number of the device. Rounded if it is a `number` above 2^53, as is `ino`. */
  readonly dev: number | bigint;
  readonly ino: number | bigint | null;
}

/** An open file. Programs that this process starts do not get it. */
export interface OpenFile {
  /** Locks by `flock`, without waiting. Returns `false` if another open file has locked it; throws other errors. */
  tryLock(isExclusive: boolean): boolean;
  unlock(): void;
  stat(): FileInfo;
  /** Reads from an offset on; returns the number of bytes. */
  read(offset: number, bytes: Uint8Array): number;
  /** Writes at an offset; returns the number of bytes. */
  write(offset: number, bytes: Uint8Array): number;
  close(): void;
}

/** Is notified of changes. Its methods must not throw. */
export interface DirectoryListener {
  /**
   * A process has closed a file of this name that it could write, also because it was killed. Or it has
   * removed or renamed the file.
   */
  onChange(fileName: string): void;
  /** Any file may have changed: some changes were not reported. */
  onAnyChange(): void;
  /** The watch has ended because the runtime has given it up. The last call. */
  onEnd(): void;
}

/**
 * The port: what the lock needs of a runtime's file system. All calls are synchronous, and throw errors that have the
 * code of the system, such as `"ENOENT"`.
 */
export interface FileSystem {
  /** Opens a file that exists. To open it for reading only gives no event of a watch. */
  open(path: string, access: "read" | "write"): OpenFile;
  /** Creates a file, and opens it for reading and writing. Fails if the path exists. */
  create(path: string, mode: number): OpenFile;
  stat(path: string): FileInfo;
  /** The same, but of a link itself. */
  lstat(path: string): FileInfo;
  realPath(path: string): string;
  /** The target of a link, as it stands there: perhaps relative. */
  readLink(path: string): string;
  /** Creates a directory, and those above it. */
  makeDirectory(path: string, mode: number): void;
  unlink(path: string): void;
  /** The user of this process, on Node and Bun the effective one; `null` if the system has no numbers of users. */
  uid(): number | null;
  env(name: string): string | undefined;
  wallUs(): bigint;
  /**
   * Watches a directory, without keeping the process alive. Returns a function that ends the watch, which then calls
   * its listener no more; `null` if the system does not report changes, or refuses.
   */
  watch(dir: string, listener: DirectoryListener): (() => void) | null;
}
