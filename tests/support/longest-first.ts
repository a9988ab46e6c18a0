import { relative } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/**
 * Files that take longest, longest first. Without a cache of earlier durations Vitest sorts by file size and starts some of these
 * last, when the other workers have run out of work. A file that computes stands between two that start a browser.
 */
const LONGEST = [
  'flow/poison',
  'flow/supervisor',
  'flow/trouble',
  'web/plan-editing',
  'flow/crashes',
  'http/event-stream',
  'cli/daemon',
  'tools/browser-life',
  'flow/editors',
  'web/session-views',
  'sim/families',
  'tools/mcp',
  'acp/waiting',
  'tools/browser-consent',
  'flow/watching',
  'flow/ownership',
  'tools/browser',
  'flow/daemon',
  'flow/jobs',
  'tools/web-fetch',
  'web/page',
  'openai/chat-completions',
  'flow/families',
  'tools/jobs',
  'tools/browser-network',
  'http/event-socket',
  'core/long-texts',
  'flow/approvals',
  'cli/approvals',
  'tools/sandbox',
  'model/model',
  'daemon/watchdog',
  'flow/flood',
].map((name) => `tests/${name}.test.ts`);

/**
 * Vitest's own order, with the longest files moved to the front, and before them those that share no process: a process
 * that is shared ends when the next file in the queue wants one of its own, and the next one loads all modules again.
 */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const place = ({ moduleId, project }: TestSpecification) => {
      const index = LONGEST.indexOf(relative(process.cwd(), moduleId));
      if (index !== -1) return index;
      return project.config.isolate ? -1 : LONGEST.length;
    };
    return sorted
      .map((file, index) => ({ file, index }))
      .sort((a, b) => place(a.file) - place(b.file) || a.index - b.index)
      .map(({ file }) => file);
  }
}
