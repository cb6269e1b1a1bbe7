import { FileLock } from "../file/file_lock.ts";
import { FILE_LOCK_OPTIONS } from "../file/options.ts";
import { bad, type LockUrl, readQuery, unescape } from "./lock_url.ts";
import type { OpenLockOptions } from "./options.ts";

/** Opens `file:` URLs. */
export function open(
  url: LockUrl,
  { onRenewalLate: _, ...options }: OpenLockOptions,
): FileLock {
  const { dir: _dir, ...table } = FILE_LOCK_OPTIONS; // it is the path
  if (url.hosts.length > 0) throw bad("file:", "has no host: write file:///dir");
  if (url.path !== "" && !url.path.startsWith("/")) {
    throw bad("the path", "must be absolute, as in file:///dir");
  }
  const dir = url.path === "" ? {} : { dir: unescape("the path", url.path) };
  return new FileLock({ ...options, ...readQuery(url, table), ...dir });
}
