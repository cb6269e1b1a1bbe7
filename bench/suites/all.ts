/**
 * All suites, in the order in which they run.
 *
 * @module
 */
import type { Suite } from "../library/suite.ts";
import { contended } from "./contended.ts";
import { uncontended } from "./uncontended.ts";

/** The suites. A new one is added here. */
export const SUITES: readonly Suite[] = [uncontended, contended];
