/* Sets the chosen theme before anything is drawn; a plain script, so that it runs at once. */
try {
  const theme = JSON.parse(localStorage.getItem('tern') ?? '{}').theme;
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
} catch {
  /* storage that is forbidden or damaged: the system's theme */
}
