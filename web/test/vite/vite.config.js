/** What docs/guides/browser.md says that Vite needs for @tern/web. */
export default {
  esbuild: {jsx: 'automatic'},
  optimizeDeps: {exclude: ['@tern/web']},
  worker: {format: 'es'}
};
