/**
 * What a JSON report of Vitest says of the tests that failed. A file that failed as a whole counts as one test, `(file)`.
 */
import { existsSync, readFileSync } from 'node:fs';
import { relative } from 'node:path';

/** The report at `path`, or null where the run ended before it wrote one. */
export function readReport(path) {
  return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : null;
}

/** Each failed test of a report: its file, its full name and the first line of its error. */
export function failuresOf(report) {
  return report.testResults
    .filter(({ status }) => status === 'failed')
    .flatMap(({ name, message, assertionResults }) => {
      const failed = assertionResults.filter(({ status }) => status === 'failed');
      const tests = failed.length > 0 ? failed : [{ fullName: '(file)', failureMessages: [message] }];
      const file = relative(process.cwd(), name);
      return tests.map(({ fullName, failureMessages }) => ({
        file,
        name: fullName,
        error: firstLine(failureMessages[0]),
      }));
    });
}

const firstLine = (text) =>
  (text ?? '')
    .replace(/\u001b\[[0-9;]*m/g, '')
    .split('\n')[0]
    .slice(0, 200);
