/**
 * Finds forwarders: functions, methods and getters whose body is one call or read of another of our
 * functions, with arguments that are only passed on, reordered or defaulted.
 *
 * - Ours is a function that the module declares or imports by a relative path, and a member of a type that
 *   the published code declares. Types are followed by their names, as they are written.
 * - A constant counts as a default. An object, a closure, or a member of `this` as an argument does not:
 *   there the function adds something.
 * - A read is one of a member of another of our objects; a getter of an own field forwards nothing.
 * - Functions without a name, constructors and setters do not count.
 *
 * @module
 */
import type { Candidate, Module, NamedType } from "./module.ts";

/** A forwarder, with its place as `path:line`. */
export interface Forwarder {
  readonly place: string;
  readonly name: string;
}

/** Finds the forwarders of all modules. */
export function findForwarders(modules: readonly Module[]): Forwarder[] {
  const types = new Map<string, NamedType[]>();
  for (const type of modules.flatMap((module) => module.types)) {
    types.set(type.name, [...types.get(type.name) ?? [], type]);
  }
  return modules.flatMap(({ path, candidates, ownNames }) => {
    const names = new Set(ownNames);
    return candidates.filter((candidate) => isOurs(candidate, names, types))
      .map(({ name, line }) => ({ place: `${path}:${line}`, name }));
  });
}

function isOurs(
  { from, path }: Candidate,
  names: ReadonlySet<string>,
  types: ReadonlyMap<string, readonly NamedType[]>,
): boolean {
  if (from === null) return false;
  if (path.length === 0) return names.has(from);
  let type: string | null = from;
  for (const member of path) {
    if (type === null) return false;
    const found: string | null | undefined = memberOf(type, member, types);
    if (found === undefined) return false;
    type = found;
  }
  return true;
}

/** The type of a member; `undefined` if none of our types of this name has the member. */
function memberOf(
  name: string,
  member: string,
  types: ReadonlyMap<string, readonly NamedType[]>,
  seen: ReadonlySet<string> = new Set(),
): string | null | undefined {
  if (seen.has(name)) return undefined;
  for (const { members, bases } of types.get(name) ?? []) {
    if (Object.hasOwn(members, member)) return members[member];
    for (const base of bases) {
      const found = memberOf(base, member, types, new Set([...seen, name]));
      if (found !== undefined) return found;
    }
  }
  return undefined;
}
