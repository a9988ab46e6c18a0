import * as fs from 'node:fs';
import { join } from 'node:path';
import type { Outbox } from '../engine/ports.ts';
import { putInPlace, stagingName, syncFolder } from './durable.ts';
import { ifThere } from './errors.ts';
import type { SessionPaths } from './layout.ts';
import { checkReplyName } from './names.ts';

/** Reply files. The content of a name never changes once it is there: the first one stays. */
export function openOutbox(paths: SessionPaths): Outbox {
  const put = async (name: string, content: string) => {
    await putInPlace(join(paths.outboxStaging, stagingName()), join(paths.outbox, name), content);
  };
  const isIn = (folder: string, name: string) => ifThere(() => fs.lstatSync(join(folder, name))) !== undefined;
  return {
    async publish(name, content) {
      checkReplyName(name);
      // In this order: a frontend moves files from outbox/ to read/, never back, so none slips through between the looks.
      const published = isIn(paths.outbox, name) || isIn(paths.outboxRead, name);
      if (published) await syncFolder(paths.outbox);
      else await put(name, content);
    },
    async restore(name) {
      checkReplyName(name);
      if (isIn(paths.outbox, name)) return true;
      const content = ifThere(() => readConsumed(join(paths.outboxRead, name)));
      if (content === undefined) return false;
      await put(name, content);
      return true;
    },
    async publishAgain(name, content) {
      checkReplyName(name);
      await put(name, content);
    },
  };
}

function readConsumed(path: string): string {
  const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = fs.constants;
  const file = fs.openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  try {
    return fs.readFileSync(file, 'utf8');
  } finally {
    fs.closeSync(file);
  }
}
