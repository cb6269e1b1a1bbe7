/**
 * Finds server programs that are installed on this machine.
 *
 * @module
 */

import { readdirSync, statSync } from "node:fs";
import process from "node:process";
import { runCommand } from "./command.ts";
import { CONDITION_BOUND_MS } from "../time.ts";

const DEBIAN_JAR = "/usr/share/java/zookeeper.jar";
/** The logger, and parts of Netty that Debian's own class path lacks: TLS needs them. */
const DEBIAN_MORE = [
  "slf4j-nop.jar",
  "netty-codec.jar",
  "netty-resolver.jar",
  "netty-transport-native-unix-common.jar",
].map((name) => `/usr/share/java/${name}`);

/** A program and the arguments that every start needs. */
export interface LocalProgram {
  readonly command: readonly string[];
  /** The program's path and version. */
  readonly description: string;
}

/** Finds `redis-server`. */
export async function findLocalRedis(): Promise<LocalProgram | undefined> {
  for (const program of programPaths("redis-server")) {
    const { success, output } = await runCommand([program, "--version"], CONDITION_BOUND_MS);
    const version = /\bv=(\S+)/.exec(output)?.[1];
    if (success && version) return { command: [program], description: `${program} ${version}` };
  }
  return undefined;
}

/** The name and version of a program that serves Redis: `Redis 7.0.15`; undefined for others. */
export async function redisVersion(program: string): Promise<string | undefined> {
  const { success, output } = await runCommand([program, "--version"], CONDITION_BOUND_MS);
  const [, name, version] = /^(\w+) server v=(\S+)/m.exec(output) ?? [];
  return success && name !== undefined ? `${name} ${version}` : undefined;
}

/** Finds Java together with ZooKeeper's classes. */
export async function findLocalZooKeeper(): Promise<LocalProgram | undefined> {
  const javaHome = process.env["JAVA_HOME"];
  const javas = [...javaHome ? [`${javaHome}/bin/java`] : [], ...programPaths("java")];
  for (const java of javas.filter(isFile)) {
    for (const classPath of zooKeeperClassPaths()) {
      const run = [
        java,
        "-Xmx128m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:-UsePerfData",
      ];
      const main = "org.apache.zookeeper.version.VersionInfoMain";
      const { output } = await runCommand([...run, "-cp", classPath, main], CONDITION_BOUND_MS);
      const version = /version ([\d.]+)/.exec(output)?.[1];
      if (version === undefined) continue;
      const server = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
      return {
        command: [...run, "-cp", classPath, server],
        description: `${classPath.split(":")[0]} ${version} with ${java}`,
      };
    }
  }
  return undefined;
}

function zooKeeperClassPaths(): string[] {
  const home = process.env["ZOOKEEPER_HOME"];
  const homes = [
    ...home ? [home] : [],
    "/opt/zookeeper",
    "/usr/local/zookeeper",
    "/usr/share/zookeeper",
    "/usr/local/opt/zookeeper/libexec",
    "/opt/homebrew/opt/zookeeper/libexec",
  ];
  const unpacked = homes.filter((path) => hasJar(`${path}/lib`)).map((path) => `${path}/lib/*`);
  const debian = isFile(DEBIAN_JAR) ? [[DEBIAN_JAR, ...DEBIAN_MORE.filter(isFile)].join(":")] : [];
  return home ? [...unpacked, ...debian] : [...debian, ...unpacked];
}

/** The paths of all programs with this name: first those in `PATH`, then those in the usual folders. */
export function programPaths(name: string): string[] {
  const directories = (process.env["PATH"] ?? "").split(":");
  directories.push("/usr/bin", "/usr/sbin", "/usr/local/bin", "/opt/homebrew/bin");
  const paths = directories.filter((path) => path !== "").map((path) => `${path}/${name}`);
  return [...new Set(paths)].filter(isFile);
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}

function hasJar(directory: string): boolean {
  try {
    return readdirSync(directory).some((name) => /^zookeeper-\d.*\.jar$/.test(name));
  } catch {
    return false;
  }
}
