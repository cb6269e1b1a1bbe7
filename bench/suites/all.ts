/**
 * All suites, in the order in which they run.
 *
 * @module
 */
import type { Suite } from "../library/suite.ts";
import { contended } from "./contended.ts";
import { file } from "./file.ts";
import { growth } from "./growth.ts";
import { http } from "./http.ts";
import { idle } from "./idle.ts";
import { loss } from "./loss.ts";
import { uncontended } from "./uncontended.ts";
import { zookeeper } from "./zookeeper.ts";

/** The suites. A new one is added here: a module that exports a `Suite`, whose `measure()` is called. */
export const SUITES: readonly Suite[] = [
  uncontended,
  contended,
  idle,
  file,
  loss,
  growth,
  zookeeper,
  http,
];
