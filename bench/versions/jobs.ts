/**
 * The requests to a version's process, and its answers.
 *
 * @module
 */

/** The checkout of a version, and the server that it uses. */
export interface VersionArguments {
  /** The checkout, as a file URL that ends in a slash. */
  readonly tree: string;
  readonly redisUrl: string;
}

/** The cost of one operation, all its commands together. */
export interface OperationCost {
  readonly operation: string;
  /** Commands that the server received from clients. */
  readonly commands: number;
  /** KEYS of its scripts. */
  readonly keys: number;
  /** ARGV of its scripts. */
  readonly args: number;
  /** The commands that its scripts called, in order. */
  readonly calls: readonly string[];
}

/** The calls between the user's call and the port's `send()`. */
export interface CallPath {
  readonly title: string;
  /** The user's call comes first. */
  readonly frames: readonly Frame[];
}

/** A frame of a stack that belongs to the version's own code. */
export interface Frame {
  readonly name: string;
  /** Relative to the checkout. */
  readonly file: string;
  /** Whether it awaits the next frame and is no longer on the stack itself. */
  readonly isAsync: boolean;
}

/** The cost of one cycle of acquire and release in the version's process. */
export interface CycleCost {
  readonly cpuUs: number;
  readonly bytes: number;
}

/** How many calls are under way at once, on which locks, and how many cycles a round has. */
export interface Workload {
  readonly title: string;
  readonly lanes: number;
  /** Whether all lanes want the same lock. */
  readonly isContended: boolean;
  readonly steps: number;
}

/** The requests by kind. */
export interface Requests {
  counts: Record<never, never>;
  paths: Record<never, never>;
  cycles: { readonly workload: Workload };
}

/** The answers by kind of request. */
export interface Answers {
  counts: OperationCost[];
  paths: CallPath[];
  cycles: CycleCost;
}

/** A request as it travels. */
export type Job = { [K in keyof Requests]: { readonly kind: K } & Requests[K] }[keyof Requests];

/** An answer as it travels. */
export type Reply = { readonly answer: unknown } | { readonly error: string };
