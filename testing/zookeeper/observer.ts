/**
 * A session of the test itself, to read, create and delete znodes as another client would.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import zooKeeper from "node-zookeeper-client";
import { called, withClient } from "../servers/zookeeper_cleanup.ts";

type Done<T = void> = (error: { name?: string } | null, result?: T) => void;

interface Client {
  create(path: string, mode: number, done: Done<string>): void;
  getChildren(path: string, done: Done<string[]>): void;
  exists(path: string, done: Done<unknown>): void;
  setData(path: string, data: Uint8Array, done: Done): void;
  remove(path: string, done: Done): void;
  mkdirp(path: string, done: Done<string>): void;
  setACL(path: string, acls: unknown[], version: number, done: Done): void;
}

/** The requests of a test. */
export interface Observer {
  /** Returns the names of the children, by sequence number; none if the znode is missing. */
  children(path: string): Promise<string[]>;
  exists(path: string): Promise<boolean>;
  /** Creates all missing znodes of a path, persistent ones. */
  make(path: string): Promise<void>;
  /** Creates a persistent znode whose name gets a sequence number; returns its path. */
  makeSequential(path: string): Promise<string>;
  write(path: string): Promise<void>;
  remove(path: string): Promise<void>;
  /** Grants everybody the rights in this sum, and the right to change them, and no other rights. */
  permit(path: string, rights: number): Promise<void>;
}

/** The rights to a znode: read it, write it, create and delete children of it. */
export const RIGHTS = { READ: 1, WRITE: 2, CREATE: 4, DELETE: 8 } as const;

const ADMIN = 16;

/** Opens a session for the duration of the work. */
export function observing<T>(
  connectString: string,
  work: (observer: Observer) => Promise<T>,
): Promise<T> {
  return withClient(connectString, (client) => work(observerOf(client as unknown as Client)));
}

function observerOf(client: Client): Observer {
  const done = <T>(start: (done: Done<T>) => void) => called<T>("The observer's request", start);
  return {
    async children(path) {
      try {
        const names = await done<string[]>((done) => client.getChildren(path, done)) ?? [];
        return names.sort((a, b) => a.slice(-10) < b.slice(-10) ? -1 : 1);
      } catch (error) {
        if ((error as { name?: string }).name === "NO_NODE") return [];
        throw error;
      }
    },
    exists: async (path) => Boolean(await done<unknown>((done) => client.exists(path, done))),
    make: async (path) => void await done<string>((done) => client.mkdirp(path, done)),
    async makeSequential(path) {
      const mode = zooKeeper.CreateMode.PERSISTENT_SEQUENTIAL;
      return (await done<string>((done) => client.create(path, mode, done)))!;
    },
    write: (path) => done<void>((done) => client.setData(path, Buffer.from("x"), done)),
    remove: (path) => done<void>((done) => client.remove(path, done)),
    permit: (path, rights) => {
      const everybody = new zooKeeper.Id("world", "anyone");
      const acl = [new zooKeeper.ACL(rights | ADMIN, everybody)];
      return done<void>((done) => client.setACL(path, acl, -1, done));
    },
  };
}
