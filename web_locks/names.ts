/**
 * The names of the Web Locks API as names of locks. Most are the same. The empty string, and strings that are
 * not well-formed Unicode, no strategy takes: they become names that begin with "-", which the Web Locks API
 * refuses, so that no other of its names is the same.
 *
 * @module
 */

/** The name of the lock for a name of the Web Locks API. Two names never share a lock. */
export function lockName(webName: string): string {
  const isCommon = webName !== "" && webName.isWellFormed();
  return isCommon ? webName : `-${JSON.stringify(webName).slice(1, -1)}`;
}

/** The name that `lockName()` was given. The name of any other lock stays as it is. */
export function webName(name: string): string {
  const decoded = decode(name);
  return decoded !== null && lockName(decoded) === name ? decoded : name;
}

function decode(name: string): string | null {
  if (!name.startsWith("-")) return null;
  try {
    return String(JSON.parse(`"${name.slice(1)}"`));
  } catch {
    return null;
  }
}
