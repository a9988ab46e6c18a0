import fc from 'fast-check';

/**
 * Every run tries the same cases, so that a change fails by what it does; FC_SEED says others. What others find becomes an example of
 * its test. A seed given to an assertion of its own goes before.
 */
fc.configureGlobal({ seed: Number(process.env['FC_SEED'] ?? 1) });

export default fc;
