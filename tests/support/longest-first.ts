import { relative } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/**
 * Files that take longest, longest first. Without a cache of earlier durations Vitest sorts by file size and starts some of these
 * last, when the other workers have run out of work. A file that computes stands between two that start a browser.
 */
const LONGEST = [
  'flow/supervisor',
  'tools/jobs',
  'power/power',
  'tools/browser-life',
  'flow/trouble',
  'tools/browser',
  'cli/daemon',
  'flow/daemon',
  'flow/jobs',
  'sim/families',
  'tools/browser-consent',
  'flow/crashes',
  'daemon/watchdog',
  'tools/sandbox',
  'flow/flood',
  'model/model',
].map((name) => `tests/${name}.test.ts`);

/** Vitest's own order, with the longest files moved to the front. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const place = ({ moduleId }: TestSpecification) => {
      const index = LONGEST.indexOf(relative(process.cwd(), moduleId));
      return index === -1 ? LONGEST.length : index;
    };
    return sorted
      .map((file, index) => ({ file, index }))
      .sort((a, b) => place(a.file) - place(b.file) || a.index - b.index)
      .map(({ file }) => file);
  }
}
