/**
 * The server programs that `--servers` names, and what one run of `deno test` uses of them.
 *
 * @module
 */
import { accessSync, constants, statSync } from "node:fs";
import { resolve } from "node:path";
import process from "node:process";
import { type ServerSource, sourceVariable } from "../servers/find.ts";
import { redisVersion } from "../servers/find_local.ts";
import { strategyOf } from "./select.ts";

/** The names that `--servers` takes. */
const NAMES = ["redis"];

/** A server program that the tests use. */
export interface ServerProgram {
  /** An absolute path. */
  readonly path: string;
  /** Its name and version, as it prints them: `Redis 7.0.15`. */
  readonly version: string;
}

/** The test files of one run of `deno test`. */
export interface Round {
  /** Describes the files in the list of counts. */
  readonly title: string;
  readonly files: readonly string[];
  /** The program that starts Redis; found on this machine if undefined. */
  readonly redis: ServerProgram | undefined;
}

/**
 * Reads a list like `redis=/usr/bin/redis-server,redis=../valkey-server`.
 *
 * @param root The folder that relative paths begin at.
 * @throws {Error} If a name is unknown, or a path is not a program that serves Redis.
 */
export async function readServers(list: string, root: string): Promise<ServerProgram[]> {
  const programs: ServerProgram[] = [];
  for (const part of list.split(",")) programs.push(await readServer(part, root));
  return programs;
}

async function readServer(part: string, root: string): Promise<ServerProgram> {
  const [name = "", ...rest] = part.split("=");
  if (!NAMES.includes(name) || rest.length === 0) {
    const form = `write ${NAMES.map((each) => `${each}=PATH`).join(" or ")}`;
    throw new Error(`Cannot use "${part}" in --servers: ${form}`);
  }
  const path = resolve(root, rest.join("="));
  const problem = problemOf(path);
  const version = problem === undefined ? await redisVersion(path) : undefined;
  if (version !== undefined) return { path, version };
  const reason = problem ?? "it does not answer --version as Redis does";
  throw new Error(`Cannot use "${path}" as a Redis server: ${reason}`);
}

/** Why a path cannot be started; undefined if it can. */
function problemOf(path: string): string | undefined {
  if (statSync(path, { throwIfNoEntry: false })?.isFile() !== true) return "there is no such file";
  try {
    accessSync(path, constants.X_OK);
    return undefined;
  } catch {
    return "it is not executable";
  }
}

/**
 * Divides the test files into rounds: with several programs, those of Redis run once with each, then
 * the others once.
 */
export function roundsOf(
  files: readonly string[],
  programs: readonly ServerProgram[],
): Round[] {
  if (programs.length < 2) {
    const [redis] = programs;
    return [{ title: redis ? titleOf(redis) : "all tests", files, redis }];
  }
  const isOfRedis = (file: string) => strategyOf(file) === "redis";
  const ofRedis = files.filter(isOfRedis);
  const others = files.filter((file) => !isOfRedis(file));
  const rounds = programs.map((redis) => ({ title: titleOf(redis), files: ofRedis, redis }));
  return [...rounds, { title: "other tests", files: others, redis: programs[0] }]
    .filter((round) => round.files.length > 0);
}

function titleOf({ path, version }: ServerProgram): string {
  return `${version} (${path})`;
}

/** Makes this process and its children start Redis with a program, and use no other server. */
export function useRedis({ path }: ServerProgram): void {
  const source: ServerSource = { own: { kind: "local", command: [path] } };
  process.env[sourceVariable("redis")] = JSON.stringify(source);
}
