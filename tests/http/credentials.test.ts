import { afterEach, expect, test, vi } from 'vitest';
import { createLoginCode, openPageAccess } from '../../src/frontends/http/access/credentials.ts';
import { rig } from '../client/rig.ts';

afterEach(() => void vi.useRealTimers());

const TOKEN = 'the token of the workspace';

function pageAccess() {
  const admin = { id: 'admin', secret: TOKEN, client: rig().client };
  return openPageAccess(TOKEN, {
    byToken: (token) => (token === TOKEN ? admin : undefined),
    byId: (id) => (id === admin.id ? admin : undefined),
  });
}

test('a login code is valid for a minute, and once', () => {
  vi.useFakeTimers({ toFake: ['Date'], now: 1_000_000 });
  const access = pageAccess();
  const [early, late] = [createLoginCode(TOKEN), createLoginCode(TOKEN)];
  vi.setSystemTime(1_060_000);
  expect(access.logIn(early)).toBeDefined();
  expect(access.logIn(early)).toBeUndefined();
  vi.setSystemTime(1_060_001);
  expect(access.logIn(late)).toBeUndefined();
});

test('the cookie of a login is not sent with requests of other sites, and no script reads it: neither at login nor at logout', () => {
  const access = pageAccess();
  for (const cookie of [access.logIn(TOKEN)?.cookie, access.logOut()])
    expect(cookie).toMatch(/^agentd_\w+=[^;]*; Path=\/; HttpOnly; SameSite=Strict; Max-Age=\d+$/);
});
