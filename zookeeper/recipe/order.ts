/**
 * Who stands where in the queue of a lock: the order of its znodes. Pure.
 *
 * @module
 * @see {@link https://zookeeper.apache.org/doc/current/recipes.html#sc_recipes_Locks}
 */

/** The greatest sequence number that ZooKeeper counts to. */
export const MAX_SEQUENCE = 2 ** 31 - 1;

/** A znode that holds the lock or waits for it. */
export interface Contender {
  /** The name of the znode, without its parent. */
  readonly name: string;
  /** The number that ZooKeeper appended. */
  readonly sequence: number;
}

/** The children of a lock's znode, as seen by one of them. */
export interface Standing {
  /** Our own znode. */
  readonly own: Contender;
  /** Those before us: the holder, then the earlier waiters. */
  readonly ahead: readonly Contender[];
  /** How many wait, all but the holder. */
  readonly waiters: number;
  /** Whether ours is the only child. */
  readonly isAlone: boolean;
}

/** `-lock-` is Curator's mark and ours, `__lock__` kazoo's. A negative number is a wrapped one. */
const CONTENDER = /(?:-lock-|__lock__)(\d{10}|-\d{9,10})$/;

/**
 * What the name of a znode begins with: Curator's protected form, so that Curator's mutex and ours
 * exclude each other. The GUID is how a znode is found whose creation was not answered.
 *
 * @param guid A random UUID, used for one znode only.
 * @returns The name without the sequence number.
 * @see {@link https://curator.apache.org/docs/recipes-shared-reentrant-lock}
 */
export function znodePrefix(guid: string): string {
  return `_c_${guid}-lock-`;
}

/**
 * A random UUID for a znode.
 *
 * @param isBrief Whether it is of somebody who does not wait: then its version is 8, not 4, so that
 * others see it.
 * @returns The UUID.
 */
export function newGuid(isBrief: boolean): string {
  const guid = crypto.randomUUID();
  return isBrief ? `${guid.slice(0, 14)}8${guid.slice(15)}` : guid;
}

/**
 * Whether a contender does not wait: it has the lock, or goes at once.
 *
 * @param contender The contender.
 * @returns Whether it is made by {@linkcode newGuid} so. Curator's and kazoo's are not.
 */
export function isBrief({ name }: Contender): boolean {
  return /^_c_[\da-f]{8}-[\da-f]{4}-8/.test(name);
}

/**
 * The contenders among the children of a lock's znode, in the order in which they are served.
 * Sequence numbers are compared as numbers: as texts, wrapped ones would be out of order.
 *
 * @param children The names of the children.
 * @returns The contenders; children of other kinds are left out.
 */
export function inOrder(children: readonly string[]): Contender[] {
  const contenders: Contender[] = [];
  for (const name of children) {
    const digits = CONTENDER.exec(name)?.[1];
    if (digits !== undefined) contenders.push({ name, sequence: Number(digits) });
  }
  return contenders.sort((a, b) => a.sequence - b.sequence || (a.name < b.name ? -1 : 1));
}

/**
 * The contenders that were made under a GUID. More than one only if a request was sent twice.
 *
 * @param children The names of the children.
 * @param guid The GUID.
 * @returns The contenders, lowest first.
 */
export function madeUnder(children: readonly string[], guid: string): Contender[] {
  const prefix = znodePrefix(guid);
  return inOrder(children.filter((name) => name.startsWith(prefix)));
}

/**
 * Where our znode stands.
 *
 * @param children The names of the children.
 * @param ownName The name of our own znode.
 * @returns The standing, or `null` if our znode is not among the children: then nothing is ours.
 */
export function standingOf(children: readonly string[], ownName: string): Standing | null {
  const contenders = inOrder(children);
  const index = contenders.findIndex(({ name }) => name === ownName);
  const own = contenders[index];
  if (own === undefined) return null;
  return {
    own,
    ahead: contenders.slice(0, index),
    waiters: contenders.length - 1,
    isAlone: children.length === 1,
  };
}

/**
 * Whether sequence numbers still tell who came first. They do not at the end of their range: there
 * ZooKeeper gives one number to several znodes, or starts again below zero.
 *
 * @param children The names of the children.
 * @param own Our own znode.
 * @returns `false` if the order cannot be trusted, so that nothing may be taken.
 * @see {@link https://issues.apache.org/jira/browse/ZOOKEEPER-4706}
 */
export function isOrderKnown(children: readonly string[], own: Contender): boolean {
  if (own.sequence < 0 || own.sequence >= MAX_SEQUENCE) return false;
  return inOrder(children).every(({ name, sequence }) =>
    name === own.name || sequence !== own.sequence
  );
}
