import { describe, expect, test } from 'vitest';
import { scenarios } from '../../scripts/modes/scenario.ts';
import { describeRequests, describeTools, recordRequests } from './recorded-requests.ts';

/**
 * What the model is sent, byte for byte, in `tests/cases/requests/`. A change that means to reword it writes the files again:
 * `npx vitest run tests/modes/requests.test.ts -u`; then the diff shows every request that reads differently.
 */
describe.skipIf(process.platform !== 'linux')('requests to the model', () => {
  for (const [name, scenario] of scenarios())
    test(`in the scenario of ${name} they are the recorded ones`, async () => {
      const bodies = await recordRequests(scenario);
      await expect(describeRequests(bodies)).toMatchFileSnapshot(`../cases/requests/${name}.txt`);
      if (name === 'linear')
        await expect(describeTools(bodies)).toMatchFileSnapshot('../cases/requests/tools-offered.txt');
    });
});
