/**
 * The names of the Web Locks API as names of locks. Most are the same. But no strategy takes the empty string, or one
 * that is not well-formed Unicode: those become names that begin with "-", which the Web Locks API refuses.
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
